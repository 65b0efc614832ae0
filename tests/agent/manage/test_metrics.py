"""`/metrics` against the contract's own table, parsed by Prometheus' own parser."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from agent.discovery import RaplReader
from agent.manage.identity import IdentityStore
from agent.manage.metrics import AgentCollector, Exposition
from agent.manage.state import ManageState
from agent.runtime import AgentRuntime
from agent.stats import COMMAND_BOUNDS_S, HistogramSnapshot, StatsSnapshot
from agent.tiers import TieredStore
from tests.agent.discovery.sysfs import write
from tests.agent.manage.conftest import Runtimes

CONTRACTS = Path(__file__).resolve().parents[3] / "docs/contracts.md"


@dataclass(frozen=True)
class Row:
    """One metric of the contract: its type and label names."""

    kind: str
    labels: frozenset[str]


def contract_table() -> dict[str, Row]:
    """Return the agent's table of docs/contracts.md section 4 by full metric name."""
    section = CONTRACTS.read_text().split("## 4. Metric names")[1].split("Replay client")[0]
    rows: dict[str, Row] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        names = re.findall(r"`([a-z_]+)`", cells[0])
        if len(cells) != 4 or not names:
            continue
        for name in names:
            full = f"kvfabric_agent{name}" if name.startswith("_") else name
            text = cells[2]
            if (only := re.fullmatch(r"(get|set): (.*)", text)) is not None:
                text = only[2] if f"_{only[1]}_" in full else ""
            labels = frozenset(re.findall(r"[a-z_]+", text.split("=")[0]))
            rows[full] = Row(cells[1].split()[0], labels)
    return rows


def _scrape(exposition: Exposition) -> Iterator[tuple[str, str, list[Sample]]]:
    for family in text_string_to_metric_families(exposition.text().decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield name, family.type, family.samples


def _exposition(runtime: AgentRuntime, root: Path) -> Exposition:
    return Exposition(ManageState(runtime, IdentityStore(runtime.config.state_dir)), RaplReader(root))


@pytest.fixture
def busy_runtime(make_runtime: Runtimes) -> AgentRuntime:
    """A runtime whose store has seen hits, misses, moves, evictions and refusals."""
    runtime = make_runtime()
    store = runtime.store
    assert isinstance(store, TieredStore)
    for index in range(400):
        value = store.pool.allocate(65536)
        assert value
        for view in value.views:
            memoryview(view)[:] = bytes([index % 256]) * len(view)
        value.seal()
        store.set_many([(b"key-%d" % index, value)])
        store.lookup([b"key-%d" % (index - 3), b"absent"])
    return runtime


def test_names_types_and_labels_equal_the_contracts_table(busy_runtime: AgentRuntime, tmp_path: Path) -> None:
    zone = "sys/class/powercap/intel-rapl:0"
    write(tmp_path, {f"{zone}/name": "package-0", f"{zone}/energy_uj": "1"})
    snapshot = replace(
        busy_runtime.snapshot(),
        commands=(HistogramSnapshot("get", COMMAND_BOUNDS_S, (1,) * (len(COMMAND_BOUNDS_S) + 1), 3.0),),
    )
    busy_runtime.snapshot = lambda: snapshot  # type: ignore[method-assign]
    found: dict[str, Row] = {}
    for name, kind, samples in _scrape(_exposition(busy_runtime, tmp_path)):
        if name.startswith("process_"):
            continue
        assert samples, f"{name} shows no value"
        labels = {frozenset(sample.labels) - {"le"} for sample in samples}
        assert len(labels) == 1, f"{name} has samples with different labels"
        found[name] = Row(kind, labels.pop())
    assert found == contract_table()


def test_contract_table_is_read_as_meant() -> None:
    table = contract_table()
    assert table["kvfabric_agent_get_bytes_total"] == Row("counter", frozenset({"tier"}))
    assert table["kvfabric_agent_set_bytes_total"] == Row("counter", frozenset())
    assert table["kvfabric_agent_evicted_bytes_total"] == Row("counter", frozenset({"tier", "reason"}))
    assert table["kvfabric_agent_info"] == Row("gauge", frozenset({"agent_id", "version", "engine"}))
    assert table["kvfabric_host_energy_joules_total"] == Row("counter", frozenset({"domain"}))
    assert len(table) >= 28


def test_values_equal_the_stores_own_counters(busy_runtime: AgentRuntime, tmp_path: Path) -> None:
    snapshot = busy_runtime.snapshot()
    assert sum(snapshot.evicted_blocks.values()) > 0
    assert snapshot.lookup_blocks["dram"] > 0
    samples = [sample for _, _, found in _scrape(_exposition(busy_runtime, tmp_path)) for sample in found]
    values = {(sample.name, *sorted(sample.labels.values())): sample.value for sample in samples}
    for result in ("dram", "flash", "miss"):
        expected = snapshot.lookup_blocks.get(result, 0)
        assert values["kvfabric_agent_lookup_blocks_total", result] == expected
    for (tier, reason), count in snapshot.evicted_blocks.items():
        assert values["kvfabric_agent_evicted_blocks_total", *sorted((tier, reason))] == count
    assert values["kvfabric_agent_set_blocks_total",] == snapshot.set_blocks == 400
    assert values["kvfabric_agent_start_time_seconds",] == busy_runtime.started_at_s
    assert values["kvfabric_agent_limit_bytes", "dram"] == 8 << 20
    assert values["kvfabric_agent_info", "", "0.1.0", "flash"] == 1


def test_what_has_not_happened_yet_is_zero_and_not_absent(make_runtime: Runtimes, tmp_path: Path) -> None:
    found = {name: samples for name, _, samples in _scrape(_exposition(make_runtime(), tmp_path))}
    assert {sample.labels["result"]: sample.value for sample in found["kvfabric_agent_lookup_blocks_total"]} == {
        "dram": 0,
        "flash": 0,
        "miss": 0,
    }
    assert len(found["kvfabric_agent_evicted_blocks_total"]) == 10
    assert len(found["kvfabric_agent_moved_bytes_total"]) == 2
    assert all(sample.value == 0 for sample in found["kvfabric_agent_set_refused_total"])


def test_energy_is_absent_where_it_cannot_be_read(make_runtime: Runtimes, tmp_path: Path) -> None:
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    write(zone, {"name": "package-0"})
    (zone / "energy_uj").mkdir()
    text = _exposition(make_runtime(), tmp_path).text().decode()
    assert "kvfabric_host_energy_joules_total{" not in text


def test_energy_is_what_the_counter_moved(make_runtime: Runtimes, tmp_path: Path) -> None:
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    write(zone, {"name": "package-0", "energy_uj": "5000000"})
    exposition = _exposition(make_runtime(), tmp_path)
    write(zone, {"energy_uj": "9500000"})
    assert 'kvfabric_host_energy_joules_total{domain="package-0"} 4.5' in exposition.text().decode()


def _with_commands(runtime: AgentRuntime, *histograms: HistogramSnapshot) -> StatsSnapshot:
    return replace(runtime.snapshot(), commands=histograms)


def test_histogram_buckets_are_cumulative_and_end_with_the_count(make_runtime: Runtimes, tmp_path: Path) -> None:
    runtime = make_runtime()
    counts = tuple(range(len(COMMAND_BOUNDS_S) + 1))
    snapshot = _with_commands(runtime, HistogramSnapshot("mget", COMMAND_BOUNDS_S, counts, 12.5))
    runtime.snapshot = lambda: snapshot  # type: ignore[method-assign]
    found = {name: samples for name, _, samples in _scrape(_exposition(runtime, tmp_path))}
    samples = found["kvfabric_agent_command_duration_seconds"]
    buckets = [(sample.labels["le"], sample.value) for sample in samples if sample.name.endswith("_bucket")]
    assert [float(bound) for bound, _ in buckets] == [*COMMAND_BOUNDS_S, float("inf")]
    assert [value for _, value in buckets] == [sum(counts[: i + 1]) for i in range(len(counts))]
    others = {sample.name.rpartition("_")[2]: sample.value for sample in samples if "le" not in sample.labels}
    assert others == {"count": sum(counts), "sum": 12.5}


def test_label_values_from_outside_are_escaped(make_runtime: Runtimes, tmp_path: Path) -> None:
    runtime = make_runtime()
    snapshot = _with_commands(runtime, HistogramSnapshot('a"b\nc\\', COMMAND_BOUNDS_S, (0,) * 18, 0.0))
    runtime.snapshot = lambda: snapshot  # type: ignore[method-assign]
    found = {name: samples for name, _, samples in _scrape(_exposition(runtime, tmp_path))}
    assert found["kvfabric_agent_command_duration_seconds"][0].labels["command"] == 'a"b\nc\\'


def test_process_figures_are_those_of_this_process(make_runtime: Runtimes, tmp_path: Path) -> None:
    found = {name: samples for name, _, samples in _scrape(_exposition(make_runtime(), tmp_path))}
    resident = found["process_resident_memory_bytes"][0].value
    pages = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert 0.5 < resident / pages < 2
    assert found["process_open_fds"][0].value > 0


def test_every_family_has_help_and_is_shown_once(make_runtime: Runtimes, tmp_path: Path) -> None:
    runtime = make_runtime()
    state = ManageState(runtime, IdentityStore(runtime.config.state_dir))
    families = list(AgentCollector(state, RaplReader(tmp_path)).collect())
    assert all(family.documentation.endswith((".", ":")) for family in families)
    assert len({family.name for family in families}) == len(families)
