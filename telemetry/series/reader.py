"""Reading the store back as slices, at any level; where a roll-up has not got to yet, the level below it answers."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from math import isnan

from django.db.models import Max

from telemetry.kpis import CATALOG, START_TIMES
from telemetry.models import Layout, Rollup, Tick
from telemetry.series.catalog import Kind, Selector, Series
from telemetry.series.codec import CodecError, Stat, decode_rollup, decode_tick
from telemetry.series.deltas import DeltaWalker, Scrape, Step
from telemetry.series.levels import FIVE_MIN_S, RAW_S, TEN_S
from telemetry.series.slices import Slice, add_increase, slice_of_step

logger = logging.getLogger(__name__)

LOOKBACK_TICKS = 5
"""Ticks read before a range, so that its first pair and series that just came back have something to compare with."""
_BELOW = {FIVE_MIN_S: TEN_S, TEN_S: RAW_S}
_START_NAMES = [family.name for family in START_TIMES]


class LayoutBook:
    """Layouts met in one read, each taken apart once."""

    def __init__(self) -> None:
        self._series: dict[int, tuple[Series | None, ...]] = {}

    def series(self, layout_id: int) -> tuple[Series | None, ...]:
        """Return the layout's series in order; None for those which the catalogue no longer knows."""
        if layout_id not in self._series:
            text = Layout.objects.values_list("series", flat=True).get(pk=layout_id)
            self._series[layout_id] = tuple(CATALOG.from_text(line) for line in text.split("\n") if line)
        return self._series[layout_id]


def start_time(values: dict[Series, float]) -> float | None:
    """Return the target's start (unix time) by the first metric of `kpis.START_TIMES` that it exposes."""
    starts = {series.name: value for series, value in values.items() if series.name in _START_NAMES}
    return next((starts[name] for name in _START_NAMES if name in starts), None)


def scrape_of_tick(row: tuple[int, int, bool, bytes], book: LayoutBook, wanted: Collection[Selector] | None) -> Scrape:
    """Return the scrape that a tick's (at_ms, layout_id, complete, values) holds, of wanted selectors only.

    One that cannot be decoded is an empty, incomplete scrape: a gap.
    """
    at_ms, layout_id, complete, blob = row
    layout = book.series(layout_id)
    values: dict[Series, float] = {}
    known: set[Series] = set()
    try:
        decoded = decode_tick(bytes(blob), len(layout))
    except CodecError as error:
        logger.warning("tick at %d ms is unreadable: %s", at_ms, error)
        return Scrape(at_ms / 1000, {}, frozenset(s for s in layout if s), None, complete=False)
    for series, value in zip(layout, decoded, strict=True):
        if series is None or not (_is_wanted(series, wanted) or series.name in _START_NAMES):
            continue
        known.add(series)
        if not isnan(value):
            values[series] = value
    return Scrape(at_ms / 1000, values, known, start_time(values), complete)


def steps_of_source(
    source_id: int, start_ms: int, end_ms: int, book: LayoutBook, wanted: Collection[Selector] | None = None
) -> Iterator[Step]:
    """Yield the steps of the ticks in [start, end), in order of time."""
    fields = ("at_ms", "layout_id", "complete", "values")
    ticks = Tick.objects.filter(source_id=source_id).values_list(*fields)
    before = list(ticks.filter(at_ms__lt=start_ms).order_by("-at_ms")[:LOOKBACK_TICKS])
    within = ticks.filter(at_ms__gte=start_ms, at_ms__lt=end_ms).order_by("at_ms")
    walker = DeltaWalker()
    for row in (*reversed(before), *within.iterator(chunk_size=2000)):
        step = walker.step(scrape_of_tick(row, book, wanted))
        if step is not None and row[0] >= start_ms:
            yield step


def slices_of_sources(
    sources: Sequence[tuple[int, str]], level_s: int, start_s: int, end_s: int, wanted: Collection[Selector]
) -> Iterator[tuple[int, float, Slice]]:
    """Yield (source id, time, slice) over [start, end) from `level_s`, and from the levels below where it ends.

    `sources` are (id, host) pairs. Slices of one source come in order of time.
    """
    book = LayoutBook()
    if level_s == RAW_S:
        for source_id, host in sources:
            for step in steps_of_source(source_id, start_s * 1000, end_s * 1000, book, wanted):
                yield source_id, step.at_s, slice_of_step(step, host)
        return
    hosts = dict(sources)
    rows = (
        Rollup.objects.filter(source_id__in=hosts, level_s=level_s, at_s__gte=start_s, at_s__lt=end_s)
        .order_by("source_id", "at_s")
        .values_list("source_id", "at_s", "layout_id", "covered_s", "data")
    )
    reached = _reached(list(hosts), level_s)
    for source_id, group in groupby(rows.iterator(chunk_size=2000), key=lambda row: row[0]):
        for _, at_s, layout_id, covered_s, data in group:
            stats = stats_of_rollup(at_s, book.series(layout_id), data)
            yield source_id, float(at_s), slice_of_stats(stats, covered_s, hosts[source_id])
    for source_id, host in sources:
        rest_s = max(start_s, reached.get(source_id, start_s))
        if rest_s < end_s:
            yield from slices_of_sources([(source_id, host)], _BELOW[level_s], rest_s, end_s, wanted)


def stats_of_rollup(at_s: int, layout: Sequence[Series | None], data: bytes | memoryview) -> list[tuple[Series, Stat]]:
    """Return the statistics of the series which the catalogue knows; of an unreadable roll-up none, a gap."""
    try:
        stats = decode_rollup(bytes(data), len(layout))
    except CodecError as error:
        logger.warning("roll-up at %d s is unreadable: %s", at_s, error)
        return []
    return [(series, stat) for series, stat in zip(layout, stats, strict=True) if series is not None and stat.count]


def slice_of_stats(stats: Iterable[tuple[Series, Stat]], covered_s: float, host: str = "") -> Slice:
    """Reduce a roll-up's statistics to selectors."""
    out = Slice(host, covered_s)
    for series, stat in stats:
        out.observed.add(series.name)
        for selector in series.selectors:
            if series.kind is Kind.GAUGE:
                total, count = out.levels.get(selector, (0.0, 0))
                out.levels[selector] = (total + stat.total, max(count, stat.count))
            else:
                add_increase(out, selector, series.bound, stat.total)
    return out


def _reached(source_ids: list[int], level_s: int) -> dict[int, int]:
    """Return up to when each source is rolled up at a level (unix time, exclusive)."""
    newest = Rollup.objects.filter(source_id__in=source_ids, level_s=level_s).values("source_id")
    return {row["source_id"]: row["at"] + level_s for row in newest.annotate(at=Max("at_s")).order_by()}


def _is_wanted(series: Series, wanted: Collection[Selector] | None) -> bool:
    return wanted is None or any(selector in wanted for selector in series.selectors)
