"""Questions to the store: KPIs over time, or over one window."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import QuerySet

from telemetry.kpis import Kpi, evaluate, selectors_of
from telemetry.models import Source
from telemetry.series.levels import RAW_S, TEN_S, Plan, Retention, plan
from telemetry.series.reader import slices_of_sources
from telemetry.series.slices import Slice


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns: `at_s[i]` is the start of a point, `values[name][i]` its value over `step_s` seconds, None a gap."""

    plan: Plan
    at_s: list[int]
    values: dict[str, list[float | None]]


def retention_from_settings() -> Retention:
    """Return how long each level is kept, by the settings."""
    env = settings.ENV
    return Retention(env.retention_raw_s, env.retention_10s_s, env.retention_5m_s)


def query(
    kpis: Sequence[Kpi],
    sources: QuerySet[Source],
    start_s: float,
    end_s: float,
    step_s: float,
    *,
    now_s: float | None = None,
) -> Answer:
    """Return `kpis` over `sources` in steps. Raises `ValueError` for a range without answer (see `levels.plan`)."""
    chosen = plan(start_s, end_s, step_s, now_s=_now(now_s), retention=retention_from_settings())
    bins: dict[int, dict[int, Slice]] = defaultdict(dict)
    wanted = frozenset(selectors_of(kpis))
    for source_id, at_s, part in slices_of_sources(
        _hosts(sources), chosen.level_s, chosen.start_s, chosen.end_s, wanted
    ):
        _add(bins[int(at_s // chosen.step_s) * chosen.step_s], source_id, part)
    times = list(range(chosen.start_s, chosen.end_s, chosen.step_s))
    values: dict[str, list[float | None]] = {kpi.name: [] for kpi in kpis}
    for at in times:
        for name, value in evaluate(kpis, list(bins.get(at, {}).values())).items():
            values[name].append(value)
    return Answer(chosen, times, values)


def over_window(
    kpis: Sequence[Kpi], sources: QuerySet[Source], start_s: float, end_s: float, *, now_s: float | None = None
) -> dict[str, float | None]:
    """Return `kpis` over the whole of [start, end): from raw samples while they are kept, else from 10 s roll-ups."""
    if end_s <= start_s:
        raise ValueError("end must lie after start")
    level_s = RAW_S if start_s >= _now(now_s) - retention_from_settings().raw_s else TEN_S
    per_source: dict[int, Slice] = {}
    wanted = frozenset(selectors_of(kpis))
    for source_id, _, part in slices_of_sources(_hosts(sources), level_s, int(start_s), int(-(-end_s // 1)), wanted):
        _add(per_source, source_id, part)
    return evaluate(kpis, list(per_source.values()))


def _add(into: dict[int, Slice], source_id: int, part: Slice) -> None:
    if source_id in into:
        into[source_id].add(part)
    else:
        into[source_id] = part


def _hosts(sources: Iterable[Source]) -> list[tuple[int, str]]:
    return [(source.pk, str(source.host_id or "")) for source in sources]


def _now(now_s: float | None) -> float:
    return time.time() if now_s is None else now_s
