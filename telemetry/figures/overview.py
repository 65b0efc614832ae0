"""The overview's charts as data: which KPIs each shows, on which axis, in which colour token.

The page embeds the result with `json_script` and the browser fills in what the stream brings. Titles, units and basis
come from the KPI catalogue.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from telemetry.kpis import BY_NAME, Basis


@dataclass(frozen=True, slots=True)
class Trace:
    """One line (or one per agent): a KPI, its name in the legend and its colour token. `axis` is `y` or `y2`."""

    kpi: str
    name: str
    color: str = ""
    axis: str = "y"
    per_agent: bool = False
    dash: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return what the browser reads."""
        out: dict[str, Any] = {"kpi": self.kpi, "name": self.name, "unit": BY_NAME[self.kpi].unit, "axis": self.axis}
        if self.color:
            out["color"] = self.color
        if self.per_agent:
            out["per_agent"] = True
        if self.dash:
            out["dash"] = self.dash
        return out


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. `kind` is `line` or `stack`; `axes` holds `y` and perhaps `y2`, each {title, unit, max?}."""

    name: str
    title: str
    traces: tuple[Trace, ...]
    axes: dict[str, dict[str, Any]]
    kind: str = "line"
    empty: str = "No data yet."
    note: str = ""

    @property
    def basis(self) -> tuple[Basis, ...]:
        """What its numbers are, each kind once, in the order of the traces."""
        return tuple(dict.fromkeys(BY_NAME[trace.kpi].basis for trace in self.traces))

    @property
    def formulas(self) -> tuple[tuple[str, str, str], ...]:
        """(title, basis, formula) of each KPI shown, once."""
        kpis = dict.fromkeys(BY_NAME[trace.kpi] for trace in self.traces)
        return tuple((kpi.title, kpi.basis.value, kpi.formula) for kpi in kpis)

    def as_dict(self) -> dict[str, Any]:
        """Return the specification that the browser draws (`ChartSpec` in static/js/live/chart.js)."""
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.axes["y"]["unit"],
            "kind": self.kind,
            "basis": [basis.value for basis in self.basis],
            "series": [trace.as_dict() for trace in self.traces],
            "axes": self.axes,
            "empty": self.empty,
        }


def _axis(title: str, unit: str, maximum: float | None = None) -> dict[str, Any]:
    return {"title": title, "unit": unit} | ({} if maximum is None else {"max": maximum})


HIT_RATIO = Chart(
    "hit_ratio",
    "KV prefix hit ratio",
    (
        Trace("prefix_hit_ratio_blocks", "blocks", "--series-1"),
        Trace("prefix_hit_ratio_tokens", "tokens", "--series-2", dash="dash"),
    ),
    {"y": _axis("hit ratio", "ratio", 1.0)},
    empty="Nobody has asked for a block yet.",
    note="Only blocks in the leading run of present ones save prefill.",
)
LOOKUP_TIERS = Chart(
    "lookup_tiers",
    "Where lookups were answered",
    (
        Trace("lookup_share_dram", "DRAM", "--series-dram"),
        Trace("lookup_share_flash", "flash", "--series-flash"),
        Trace("lookup_share_miss", "miss", "--series-miss"),
    ),
    {"y": _axis("share of lookups", "ratio", 1.0)},
    kind="stack",
    empty="Nobody has asked for a block yet.",
)
TTFT = Chart(
    "ttft",
    "Time to first token",
    (
        Trace("ttft_p50_s", "p50", "--series-p50"),
        Trace("ttft_p95_s", "p95", "--series-p95"),
        Trace("ttft_p99_s", "p99", "--series-p99"),
    ),
    {"y": _axis("TTFT", "s")},
    empty="No request has been answered yet.",
    note="Percentiles of merged histograms over the last 10 s; never an average of percentiles.",
)
ENERGY = Chart(
    "energy",
    "Energy",
    (
        Trace("energy_per_token_j", "joules per token", "--series-3"),
        Trace("power_w", "watts", "--series-4", axis="y2"),
    ),
    {"y": _axis("energy per token", "J/token"), "y2": _axis("power", "W")},
    empty="No replay client reports energy.",
    note="Watts are per second of trace time.",
)
STORED = Chart(
    "stored",
    "Bytes stored",
    (
        Trace("stored_bytes_dram", "DRAM", per_agent=True),
        Trace("stored_bytes_flash", "flash", per_agent=True, dash="dash"),
    ),
    {"y": _axis("bytes stored", "B")},
    empty="No agent answers.",
)
EVICTIONS = Chart(
    "evictions",
    "Evictions",
    (Trace("evictions_per_s", "", per_agent=True),),
    {"y": _axis("evictions", "blocks/s")},
    empty="No agent answers.",
)
THROUGHPUT = Chart(
    "throughput",
    "GET and SET throughput",
    (
        Trace("get_bytes_per_s", "GET", per_agent=True),
        Trace("set_bytes_per_s", "SET", per_agent=True, dash="dash"),
    ),
    {"y": _axis("throughput", "B/s")},
    empty="No agent answers.",
)

OVERVIEW: tuple[Chart, ...] = (HIT_RATIO, LOOKUP_TIERS, TTFT, ENERGY, THROUGHPUT, STORED, EVICTIONS)
"""The overview's and a pool's charts, in reading order."""
AGENT: tuple[Chart, ...] = (
    Chart(
        "hit_ratio",
        "KV prefix hit ratio",
        (Trace("prefix_hit_ratio_blocks", "blocks", "--series-1"),),
        {"y": _axis("hit ratio", "ratio", 1.0)},
        empty="Nobody has asked for a block yet.",
    ),
    LOOKUP_TIERS,
    THROUGHPUT,
    STORED,
    EVICTIONS,
)
"""The charts of one agent's page: only what an agent itself reports."""


def specs(charts: Iterable[Chart]) -> dict[str, dict[str, Any]]:
    """Return the specifications by name, for `json_script`."""
    return {chart.name: chart.as_dict() for chart in charts}
