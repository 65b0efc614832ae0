"""The KPI catalogue: each KPI defined once, as data. What no KPI reads is not stored.

Sources: docs/contracts.md section 4 (metric names) and 5 (KPI names). Formulas of modelled figures are those of
`kvcache.cost`, which the replay client applies; here they are only summed and divided.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from telemetry.series.catalog import Catalog, Family, Kind, Selector, select
from telemetry.series.expressions import Expression, Level, Quantile, Rate, Ratio, SourceRatios
from telemetry.series.slices import Slice


class Basis(StrEnum):
    """What a number is: read off the thing itself, computed by a model, or stated by vendor or operator."""

    MEASURED = "measured"
    MODELLED = "modelled"
    DECLARED = "declared"


@dataclass(frozen=True, slots=True)
class Kpi:
    """One figure: what it is called, what it means, and the one expression that computes it live and in history."""

    name: str
    title: str
    unit: str
    meaning: str
    basis: Basis
    expression: Expression
    per_agent: bool = False
    """Also evaluated for each agent alone, in the `agents` list of a frame."""

    @property
    def formula(self) -> str:
        """The formula in the source metrics' names."""
        return self.expression.formula

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the metrics that are read."""
        return tuple(dict.fromkeys(selector.family.name for selector in self.expression.selectors))

    @property
    def aggregation(self) -> str:
        """How sources are put together: ratio of sums, sum of rates, sum of levels, merged histogram …"""
        return _AGGREGATION[type(self.expression).__name__]

    @property
    def is_percentile(self) -> bool:
        """True where the longer of the two live windows is used."""
        return isinstance(self.expression, Quantile)


_AGGREGATION = {
    "Ratio": "sum over sum",
    "SourceRatios": "sum of each source's ratio",
    "Rate": "sum of rates",
    "Level": "sum of levels",
    "Quantile": "quantile of the merged histogram",
}


def _counter(name: str) -> Family:
    return Family(name, Kind.COUNTER)


LOOKUPS = _counter("kvfabric_agent_lookup_blocks_total")
PREFIX_LOOKUPS = _counter("kvfabric_agent_prefix_lookup_blocks_total")
PREFIX_HITS = _counter("kvfabric_agent_prefix_hit_blocks_total")
GET_BYTES = _counter("kvfabric_agent_get_bytes_total")
SET_BYTES = _counter("kvfabric_agent_set_bytes_total")
EVICTED = _counter("kvfabric_agent_evicted_blocks_total")
STORED = Family("kvfabric_agent_stored_bytes", Kind.GAUGE)
HOST_ENERGY = Family("kvfabric_host_energy_joules_total", Kind.COUNTER, per_host=True, absent_is_none=False)
PROMPT_TOKENS = _counter("vllm:prompt_tokens_total")
GENERATION_TOKENS = _counter("vllm:generation_tokens_total")
PREFIX_QUERY_TOKENS = _counter("vllm:external_prefix_cache_queries_total")
PREFIX_HIT_TOKENS = _counter("vllm:external_prefix_cache_hits_total")
TTFT = Family("vllm:time_to_first_token_seconds", Kind.HISTOGRAM)
FETCH = Family("kvfabric_replay_fetch_seconds", Kind.HISTOGRAM)
REPLAY_ENERGY = _counter("kvfabric_replay_energy_joules_total")
REPLAY_SAVED = _counter("kvfabric_replay_energy_saved_joules_total")
REPLAY_TIME = _counter("kvfabric_replay_trace_seconds_total")

START_TIMES = (
    Family("kvfabric_agent_start_time_seconds", Kind.GAUGE),
    Family("process_start_time_seconds", Kind.GAUGE),
)
"""Kept beside the KPIs' sources, in order of trust: a change of the first one present means that a target restarted."""


def _lookup_share(result: str, title: str, meaning: str) -> Kpi:
    expression = Ratio((select(LOOKUPS, result=result),), (select(LOOKUPS),))
    return Kpi(f"lookup_share_{result}", title, "ratio", meaning, Basis.MEASURED, expression, per_agent=True)


def _ttft(percent: int) -> Kpi:
    return Kpi(
        f"ttft_p{percent}_s",
        f"TTFT p{percent}",
        "s",
        "Time to first token. The replay client adds a modelled prefill of the missing prefix to the measured fetch of"
        " the hit prefix; a real engine measures all of it.",
        Basis.MODELLED,
        Quantile(percent / 100, select(TTFT)),
    )


def _stored(tier: str, title: str) -> Kpi:
    return Kpi(
        f"stored_bytes_{tier}",
        title,
        "B",
        f"KV bytes that agents hold in {title.rsplit(' ', 1)[-1]} now.",
        Basis.MEASURED,
        Level(select(STORED, tier=tier)),
        per_agent=True,
    )


KPIS: tuple[Kpi, ...] = (
    Kpi(
        "prefix_hit_ratio_blocks",
        "Prefix hit ratio (blocks)",
        "ratio",
        "Share of blocks asked for that stood in the leading run of present blocks: only those save prefill.",
        Basis.MEASURED,
        Ratio((select(PREFIX_HITS),), (select(PREFIX_LOOKUPS),)),
        per_agent=True,
    ),
    Kpi(
        "prefix_hit_ratio_tokens",
        "Prefix hit ratio (tokens)",
        "ratio",
        "Share of prompt tokens asked of the external KV cache that it had, as the engine counts them.",
        Basis.MEASURED,
        Ratio((select(PREFIX_HIT_TOKENS),), (select(PREFIX_QUERY_TOKENS),)),
    ),
    _lookup_share("dram", "Lookups found in DRAM", "Share of blocks asked for that were served from the agents' DRAM."),
    _lookup_share("flash", "Lookups found in flash", "Share of blocks asked for that were served from flash."),
    _lookup_share("miss", "Lookups missed", "Share of blocks asked for that no tier held."),
    _ttft(50),
    _ttft(95),
    _ttft(99),
    Kpi(
        "fetch_p95_s",
        "KV fetch p95",
        "s",
        "Time to fetch the hit prefix of a request from the agents.",
        Basis.MEASURED,
        Quantile(0.95, select(FETCH)),
    ),
    Kpi(
        "power_w",
        "Power of serving the trace",
        "W",
        "Joules of prefill and KV fetch per second of trace time, each replay client on its own clock, added up.",
        Basis.MODELLED,
        SourceRatios((select(REPLAY_ENERGY),), (select(REPLAY_TIME),)),
    ),
    Kpi(
        "energy_per_token_j",
        "Energy per token",
        "J/token",
        "Joules of prefill and KV fetch per prompt and generated token.",
        Basis.MODELLED,
        Ratio((select(REPLAY_ENERGY),), (select(PROMPT_TOKENS), select(GENERATION_TOKENS))),
    ),
    Kpi(
        "energy_saved_w",
        "Power saved by hits",
        "W",
        "Joules of prefill that hits made unnecessary, per second of trace time.",
        Basis.MODELLED,
        SourceRatios((select(REPLAY_SAVED),), (select(REPLAY_TIME),)),
    ),
    Kpi(
        "host_power_w",
        "Host power (RAPL)",
        "W",
        "Power of the processor packages and of DRAM where the hosts let agents read it; each host once.",
        Basis.MEASURED,
        Rate((select(HOST_ENERGY, domain=r"package-\d+(-die-\d+)?(/dram)?"),)),
        per_agent=True,
    ),
    _stored("dram", "Stored in DRAM"),
    _stored("flash", "Stored in flash"),
    Kpi(
        "evictions_per_s",
        "Evictions",
        "blocks/s",
        "Copies dropped because a tier was full or became smaller. Expired, replaced and deleted ones are not counted.",
        Basis.MEASURED,
        Rate((select(EVICTED, reason="evict|shrink"),)),
        per_agent=True,
    ),
    Kpi(
        "get_bytes_per_s",
        "GET throughput",
        "B/s",
        "Payload served to clients.",
        Basis.MEASURED,
        Rate((select(GET_BYTES),)),
        per_agent=True,
    ),
    Kpi(
        "set_bytes_per_s",
        "SET throughput",
        "B/s",
        "Payload stored for clients.",
        Basis.MEASURED,
        Rate((select(SET_BYTES),)),
        per_agent=True,
    ),
    Kpi(
        "requests_per_s",
        "Requests",
        "1/s",
        "Requests that got their first token.",
        Basis.MEASURED,
        Rate((select(TTFT, "_count"),)),
    ),
    Kpi(
        "tokens_per_s",
        "Tokens",
        "tokens/s",
        "Prompt and generated tokens, in wall time.",
        Basis.MEASURED,
        Rate((select(PROMPT_TOKENS), select(GENERATION_TOKENS))),
    ),
)

BY_NAME: Mapping[str, Kpi] = {kpi.name: kpi for kpi in KPIS}


def selectors_of(kpis: Sequence[Kpi]) -> tuple[Selector, ...]:
    """Return the distinct selectors that `kpis` read."""
    return tuple(dict.fromkeys(selector for kpi in kpis for selector in kpi.expression.selectors))


CATALOG = Catalog(START_TIMES, selectors_of(KPIS))
"""The closed catalogue of this process: every reader of samples interns its series here."""


def evaluate(kpis: Sequence[Kpi], slices: Sequence[Slice]) -> dict[str, float | None]:
    """Return each KPI's value over one slice per source; None is a gap."""
    return {kpi.name: kpi.expression.evaluate(slices) for kpi in kpis}
