"""What the scraper remembers of one target: its parser, its series, its last seconds, and what went wrong."""

from collections import Counter, deque
from dataclasses import dataclass
from math import nan

from telemetry.kpis import CATALOG
from telemetry.live.frames import SourceView
from telemetry.scrape.parse import ExpositionParser
from telemetry.series.catalog import Series
from telemetry.series.codec import encode_tick, layout_digest
from telemetry.series.deltas import DeltaWalker, Scrape
from telemetry.series.reader import start_time
from telemetry.series.slices import Slice, merged, slice_of_step
from telemetry.series.store import LayoutKey, TickRow
from telemetry.targets import Target


@dataclass(frozen=True, slots=True)
class LiveWindows:
    """Seconds that live figures look back: rates and gauges, percentiles; and the ages that name an agent's state."""

    rate_s: float = 5.0
    percentile_s: float = 10.0
    live_s: float = 2.5
    unreachable_s: float = 8.0

    @classmethod
    def for_interval(cls, interval_s: float, unreachable_s: float) -> "LiveWindows":
        """Return windows that hold at least two scrapes."""
        least_s = 2.5 * interval_s
        return cls(max(5.0, least_s), max(10.0, least_s), max(2.5, least_s), max(unreachable_s, least_s))


class TargetState:
    """One target between scrapes. Not thread-safe: the scraper's event loop owns it."""

    def __init__(self, target: Target, max_series: int, windows: LiveWindows) -> None:
        self.target = target
        self.faults: Counter[str] = Counter()
        self.reason = "not_scraped_yet"
        """Why the last scrape failed; empty after a good one."""
        self.last_ok_s: float | None = None
        self.duration_s = 0.0
        self.series_count = 0
        self.unknown_samples = 0
        self._windows = windows
        self._parser = ExpositionParser(CATALOG, max_series)
        self._walker = DeltaWalker()
        self._slices: deque[tuple[float, Slice]] = deque()
        self._index: dict[Series, int] = {}
        self._known: frozenset[Series] = frozenset()
        self._layout = LayoutKey(layout_digest(()), ())

    def accept(self, body: bytes, at_s: float) -> tuple[TickRow | None, bool]:
        """Take the answer of a scrape that began at `at_s`.

        Returns the row to store (None when nothing can be stored) and whether the target restarted since the last.
        """
        parsed = self._parser.parse(body, at_s)
        self.faults.update(parsed.faults)
        self.unknown_samples = parsed.unknown_samples
        if not parsed.values and parsed.faults and not parsed.unknown_samples:
            self.fail("not_an_exposition")
            return None, False
        self._extend_layout(parsed.values)
        started = start_time(parsed.values)
        step = self._walker.step(Scrape(at_s, parsed.values, self._known, started, parsed.complete))
        self.faults.update(self._walker.faults)
        self._walker.faults.clear()
        if step is None:
            return None, False
        self.reason = ""
        self.last_ok_s = at_s
        self.series_count = len(parsed.values)
        self._slices.append((at_s, slice_of_step(step, str(self.target.host_id or ""))))
        while self._slices[0][0] <= at_s - self._windows.percentile_s:
            self._slices.popleft()
        blob = encode_tick([parsed.values.get(series, nan) for series in self._index])
        row = TickRow(self.target.source, round(at_s * 1000), self._layout, blob, parsed.complete)
        return row, step.restarted

    def fail(self, reason: str) -> None:
        """Note a failed scrape: a gap, with its reason."""
        self.reason = reason
        self.faults[f"scrape_{reason}"] += 1

    def view(self, now_s: float) -> SourceView:
        """Return what a frame shows of this target now."""
        age_s = None if self.last_ok_s is None else max(0.0, now_s - self.last_ok_s)
        fresh = age_s is not None and age_s <= self._windows.rate_s
        return SourceView(
            self.target.name,
            self.target.agent_id,
            self.target.pool_id,
            self.target.is_agent,
            self.state(age_s),
            age_s,
            self._window(now_s, self._windows.rate_s) if fresh else None,
            self._window(now_s, self._windows.percentile_s) if fresh else None,
        )

    def state(self, age_s: float | None) -> str:
        """Return `live`, `stale` or `unreachable`, by the age of the last good scrape."""
        if age_s is None or age_s > self._windows.unreachable_s:
            return "unreachable"
        return "live" if age_s <= self._windows.live_s else "stale"

    def _window(self, now_s: float, span_s: float) -> Slice:
        parts = [part for at_s, part in self._slices if at_s > now_s - span_s]
        out = merged(parts, str(self.target.host_id or ""))
        if parts:
            out.levels = dict(parts[-1].levels)  # a gauge shows its newest value, not its mean
        return out

    def _extend_layout(self, values: dict[Series, float]) -> None:
        """Give new series a place; forget absent ones only when they outnumber those present (label churn)."""
        if len(self._index) > 2 * len(values) + 64:
            self._index = {series: place for place, series in enumerate(values)}
        elif values.keys() <= self._index.keys():
            return
        else:
            for series in values:
                self._index.setdefault(series, len(self._index))
        self._known = frozenset(self._index)
        texts = tuple(series.text for series in self._index)
        self._layout = LayoutKey(layout_digest(texts), texts)
