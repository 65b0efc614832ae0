"""Compaction: ticks to 10 s, 10 s to 5 min, and the purge of what has had its time.

Every bucket is written once and whole, from rows that no longer change, so running twice or on two workers at once does
no harm (the second finds the row there). A transaction is one insert of a bounded batch: ingest never waits for it.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from django.db.models import Max, Min

from telemetry.models import Rollup, Source, Tick
from telemetry.series.catalog import Series
from telemetry.series.codec import Stat, encode_rollup, layout_digest
from telemetry.series.deltas import Step
from telemetry.series.levels import FIVE_MIN_S, TEN_S, Retention
from telemetry.series.reader import LayoutBook, stats_of_rollup, steps_of_source
from telemetry.series.store import LayoutKey, layout_id

BATCH_BUCKETS = 60
PURGE_BATCH_ROWS = 2000
ROLL_UP_SHARE = 0.8
"""Share of a run's time for rolling up; the rest is the purge's, which must not starve."""
SETTLED_AFTER_S = 900.0
"""A source silent for this long has nothing in flight any more: its last, partial bucket is closed."""
RAW_GRACE_S = 86_400.0
"""Ticks that no roll-up took are kept this much longer than their retention: a broken worker loses nothing soon."""


@dataclass(slots=True)
class Report:
    """What one run did."""

    buckets: int = 0
    purged_rows: int = 0
    finished: bool = True


@dataclass(slots=True)
class Bucket:
    """A span of one source while it is being added up."""

    at_s: int
    ticks: int
    covered_s: float
    stats: dict[Series, Stat]


def roll_up(
    *, now_s: float, retention: Retention, budget_s: float, monotonic_s: Callable[[], float] = time.monotonic
) -> Report:
    """Roll up all sources and purge, for at most about `budget_s` seconds; what is left waits for the next run."""
    report = Report()
    started_s = monotonic_s()
    _roll_up_sources(report, now_s, lambda: monotonic_s() - started_s > ROLL_UP_SHARE * budget_s)
    report.purged_rows = _purge(now_s, retention, lambda: monotonic_s() - started_s > budget_s)
    return report


def _roll_up_sources(report: Report, now_s: float, out_of_time: Callable[[], bool]) -> None:
    for level_s in (TEN_S, FIVE_MIN_S):
        for source_id in Source.objects.order_by("pk").values_list("pk", flat=True):
            while count := _roll_up_batch(source_id, level_s, now_s):
                report.buckets += count
                if out_of_time():
                    report.finished = False
                    return


def _roll_up_batch(source_id: int, level_s: int, now_s: float) -> int:
    """Write the next batch of buckets of one source; return how many. 0 means that nothing is complete yet."""
    start_s, end_s = _open_span(source_id, level_s, now_s)
    if start_s >= end_s:
        return 0
    end_s = min(end_s, start_s + BATCH_BUCKETS * level_s)
    book = LayoutBook()
    if level_s == TEN_S:
        buckets = _from_steps(steps_of_source(source_id, start_s * 1000, end_s * 1000, book), level_s)
    else:
        buckets = _from_rollups(source_id, start_s, end_s, level_s, book)
    rows = [_row(source_id, level_s, bucket) for bucket in buckets]
    Rollup.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _open_span(source_id: int, level_s: int, now_s: float) -> tuple[int, int]:
    """Return [start, end) of the buckets that are complete and not yet rolled up, on bucket boundaries.

    A bucket is complete once something newer of the same source is stored: the scraper writes in order of time.
    """
    done = Rollup.objects.filter(source_id=source_id, level_s=level_s).aggregate(at=Max("at_s"))["at"]
    after_s = None if done is None else done + level_s
    if level_s == TEN_S:
        ticks = Tick.objects.filter(source_id=source_id)
        if after_s is not None:
            ticks = ticks.filter(at_ms__gte=after_s * 1000)
        span = ticks.aggregate(first=Min("at_ms"), last=Max("at_ms"))
        first, last = (None if at is None else at // 1000 for at in (span["first"], span["last"]))
    else:
        rows = Rollup.objects.filter(source_id=source_id, level_s=TEN_S)
        if after_s is not None:
            rows = rows.filter(at_s__gte=after_s)
        span = rows.aggregate(first=Min("at_s"), last=Max("at_s"))
        first, last = span["first"], span["last"]
    if first is None or last is None:
        return 0, 0
    end_s = last // level_s * level_s
    if now_s - last > SETTLED_AFTER_S + level_s:
        end_s += level_s
    return first // level_s * level_s, end_s


def _from_steps(steps: Iterable[Step], level_s: int) -> Iterator[Bucket]:
    for at_s, group in groupby(steps, key=lambda step: int(step.at_s // level_s) * level_s):
        bucket = Bucket(at_s, 0, 0.0, {})
        for step in group:
            bucket.ticks += 1
            bucket.covered_s += step.covered_s
            for series, increase in step.increases.items():
                bucket.stats.setdefault(series, Stat()).observe(increase, increase / step.covered_s)
            for series, value in step.gauges.items():
                bucket.stats.setdefault(series, Stat()).observe(value, value)
        yield bucket


def _from_rollups(source_id: int, start_s: int, end_s: int, level_s: int, book: LayoutBook) -> Iterator[Bucket]:
    rows = (
        Rollup.objects.filter(source_id=source_id, level_s=TEN_S, at_s__gte=start_s, at_s__lt=end_s)
        .order_by("at_s")
        .values_list("at_s", "layout_id", "ticks", "covered_s", "data")
    )
    for at_s, group in groupby(rows.iterator(chunk_size=500), key=lambda row: row[0] // level_s * level_s):
        bucket = Bucket(at_s, 0, 0.0, {})
        for _, layout, ticks, covered_s, data in group:
            bucket.ticks += ticks
            bucket.covered_s += covered_s
            for series, stat in stats_of_rollup(at_s, book.series(layout), data):
                bucket.stats.setdefault(series, Stat()).add(stat)
        yield bucket


def _row(source_id: int, level_s: int, bucket: Bucket) -> Rollup:
    texts = tuple(series.text for series in bucket.stats)
    return Rollup(
        source_id=source_id,
        level_s=level_s,
        at_s=bucket.at_s,
        layout_id=layout_id(LayoutKey(layout_digest(texts), texts)),
        ticks=bucket.ticks,
        covered_s=bucket.covered_s,
        data=encode_rollup(list(bucket.stats.values())),
    )


def _purge(now_s: float, retention: Retention, out_of_time: Callable[[], bool]) -> int:
    purged = 0
    for source_id in Source.objects.order_by("pk").values_list("pk", flat=True):
        done = Rollup.objects.filter(source_id=source_id, level_s=TEN_S).aggregate(at=Max("at_s"))["at"]
        rolled_up_s = 0 if done is None else done + TEN_S
        raw_before_s = max(min(now_s - retention.raw_s, rolled_up_s), now_s - retention.raw_s - RAW_GRACE_S)
        ticks = Tick.objects.filter(source_id=source_id, at_ms__lt=int(raw_before_s * 1000))
        while count := _delete_some(Tick, list(ticks.values_list("pk", flat=True)[:PURGE_BATCH_ROWS])):
            purged += count
            if out_of_time():
                return purged
        for level_s in (TEN_S, FIVE_MIN_S):
            old = Rollup.objects.filter(
                source_id=source_id, level_s=level_s, at_s__lt=int(now_s - retention.of(level_s))
            )
            while count := _delete_some(Rollup, list(old.values_list("pk", flat=True)[:PURGE_BATCH_ROWS])):
                purged += count
                if out_of_time():
                    return purged
    return purged


def _delete_some(model: type[Tick] | type[Rollup], ids: list[int]) -> int:
    if not ids:
        return 0
    return model.objects.filter(pk__in=ids).delete()[0]
