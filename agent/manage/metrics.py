"""`/metrics`: the agent's counters as Prometheus text, by the table in docs/contracts.md section 4."""

from collections.abc import Iterator, Mapping
from itertools import accumulate, product

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from agent.discovery import RaplReader
from agent.manage.state import ManageState
from agent.runtime import AGENT_VERSION, ENGINE_NAME
from agent.stats import HistogramSnapshot, StatsSnapshot, TierSnapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "kvfabric_agent_"

# Label values that always show, so that a rate over a quiet time is 0 and not a gap.
TIERS = ("dram", "flash")
RESULTS = ("dram", "flash", "miss")
EVICT_REASONS = ("evict", "expire", "shrink", "replace", "delete")
MOVES = (("dram", "flash"), ("flash", "dram"))
REFUSE_REASONS = ("no_room", "too_large", "memory", "flash_error")
CLOSE_REASONS = ("limit", "protocol", "auth", "timeout", "stalled")


class AgentCollector(Collector):
    """Reads one snapshot per scrape. May be called from any thread."""

    def __init__(self, state: ManageState, rapl: RaplReader) -> None:
        self._state = state
        self._rapl = rapl

    def collect(self) -> Iterator[Metric]:
        """Yield all families of the contract's table."""
        runtime = self._state.runtime
        snapshot = runtime.snapshot()
        info = GaugeMetricFamily(PREFIX + "info", "What runs here; always 1.", labels=["agent_id", "version", "engine"])
        info.add_metric([self._state.agent_id, AGENT_VERSION, ENGINE_NAME], 1)
        yield info
        yield _gauge("start_time_seconds", "Process start, unix time.", runtime.started_at_s)
        yield from _lookups(snapshot)
        yield from _traffic(snapshot)
        yield from _movement(snapshot)
        yield from _tiers(snapshot.tiers)
        yield from _device(snapshot)
        yield _commands(snapshot.commands)
        yield from _connections(snapshot)
        yield _gauge("policy_generation", "Generation of the policy in force.", snapshot.policy_generation)
        yield _counter("policy_applied", "Desired policies put in force, repeats not counted.", snapshot.policy_applied)
        yield self._energy()

    def _energy(self) -> Metric:
        family = CounterMetricFamily(
            "kvfabric_host_energy_joules", "Energy measured by RAPL since the agent's start.", labels=["domain"]
        )
        for domain, joules in self._rapl.read().items():
            if joules is not None:
                family.add_metric([domain], joules)
        return family


class Exposition:
    """The text of `/metrics`: the agent's own figures and those of its process."""

    def __init__(self, state: ManageState, rapl: RaplReader) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(AgentCollector(state, rapl))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return all figures now, in the Prometheus text format 0.0.4."""
        return generate_latest(self._registry)


def _lookups(snapshot: StatsSnapshot) -> Iterator[Metric]:
    yield _labelled("lookup_blocks", "Blocks asked for, by where they were.", "result", snapshot.lookup_blocks, RESULTS)
    yield _counter("prefix_lookup_blocks", "Blocks of reads.", snapshot.prefix_lookup_blocks)
    yield _counter(
        "prefix_hit_blocks", "Blocks of reads in the leading run of present blocks.", snapshot.prefix_hit_blocks
    )


def _traffic(snapshot: StatsSnapshot) -> Iterator[Metric]:
    yield _labelled("get_bytes", "Payload served.", "tier", snapshot.get_bytes, TIERS)
    yield _labelled("get_blocks", "Blocks served.", "tier", snapshot.get_blocks, TIERS)
    yield _counter("set_bytes", "Payload stored.", snapshot.set_bytes)
    yield _counter("set_blocks", "Blocks stored.", snapshot.set_blocks)
    yield _labelled("set_refused", "Blocks not stored, by reason.", "reason", snapshot.set_refused, REFUSE_REASONS)
    yield _labelled(
        "corrupt_blocks", "Records that failed key or checksum: misses.", "tier", snapshot.corrupt_blocks, TIERS
    )


def _movement(snapshot: StatsSnapshot) -> Iterator[Metric]:
    dropped = tuple(product(TIERS, EVICT_REASONS))
    for name, values in (("evicted_blocks", snapshot.evicted_blocks), ("evicted_bytes", snapshot.evicted_bytes)):
        yield _pairs(name, "Copies dropped from a tier.", ["tier", "reason"], values, dropped)
    for name, values in (("moved_blocks", snapshot.moved_blocks), ("moved_bytes", snapshot.moved_bytes)):
        yield _pairs(name, "Promotions and demotions whose bytes arrived.", ["source", "target"], values, MOVES)


def _tiers(tiers: tuple[TierSnapshot, ...]) -> Iterator[Metric]:
    for name, text in (
        ("stored_bytes", "Bytes stored now."),
        ("stored_blocks", "Blocks stored now."),
        ("capacity_bytes", "Bytes that the policy allows."),
        ("limit_bytes", "Bytes that the agent's settings allow."),
    ):
        family = GaugeMetricFamily(PREFIX + name, text, labels=["tier"])
        for tier in tiers:
            family.add_metric([tier.tier], getattr(tier, name))
        yield family


def _device(snapshot: StatsSnapshot) -> Iterator[Metric]:
    yield _counter("flash_read_bytes", "Bytes read from flash, headers included.", snapshot.flash_read_bytes)
    yield _counter("flash_write_bytes", "Bytes written to flash, headers included.", snapshot.flash_write_bytes)
    yield _labelled(
        "flash_errors", "Operations the device refused.", "operation", snapshot.flash_errors, ("read", "write")
    )


def _commands(histograms: tuple[HistogramSnapshot, ...]) -> Metric:
    family = HistogramMetricFamily(
        PREFIX + "command_duration_seconds", "First byte parsed to reply handed to the socket.", labels=["command"]
    )
    for histogram in histograms:
        bounds = [*map(floatToGoString, histogram.bounds_s), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))
        family.add_metric([histogram.command], buckets=buckets, sum_value=histogram.sum_s)
    return family


def _connections(snapshot: StatsSnapshot) -> Iterator[Metric]:
    yield _gauge("connections", "Client connections now.", snapshot.connections)
    yield _counter("connections_accepted", "Client connections accepted.", snapshot.connections_total)
    yield _labelled(
        "connections_closed", "Connections the agent ended.", "reason", snapshot.connections_closed, CLOSE_REASONS
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=value)


def _labelled(name: str, text: str, label: str, values: Mapping[str, int], known: tuple[str, ...]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=[label])
    for key in dict.fromkeys((*known, *values)):
        family.add_metric([key], values.get(key, 0))
    return family


def _pairs(
    name: str,
    text: str,
    labels: list[str],
    values: Mapping[tuple[str, str], int],
    known: tuple[tuple[str, str], ...],
) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for key in dict.fromkeys((*known, *values)):
        family.add_metric(list(key), values.get(key, 0))
    return family
