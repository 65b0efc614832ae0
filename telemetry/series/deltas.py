"""From raw samples to increases: counter resets, restarts, gaps, and time that runs backwards."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from telemetry.series.catalog import Series

MAX_PAIR_GAP_S = 300.0
"""Two samples further apart are not compared (Prometheus' look-back): what happened between them is a gap."""
MAX_BACKSTEP_S = 60.0
"""A clock that steps back further than this was set by someone; series start anew instead of waiting for it."""
START_TOLERANCE_S = 1.0
"""Exporters that compute their start time from uptime jitter below this."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer of one target, as received. `at_s` is our own clock (unix), `start_s` what it says of its start.

    `known` holds every series which the target ever exposed, these included: what is missing from it is truly new.
    `complete` is False where samples may have been lost on the way in.
    """

    at_s: float
    values: Mapping[Series, float]
    known: Collection[Series]
    start_s: float | None = None
    complete: bool = True


@dataclass(slots=True)
class Step:
    """What one scrape adds to the one before: increases of counters over `covered_s`, and gauges as they stand."""

    at_s: float
    covered_s: float = 0.0
    increases: dict[Series, float] = field(default_factory=dict)
    gauges: dict[Series, float] = field(default_factory=dict)
    restarted: bool = False


class DeltaWalker:
    """Walks the scrapes of one target in order. Used by the live view and by the roll-up alike, so both say the same.

    An increase is never negative: after a restart (`start_s` changed) or a decrease it is the new value itself. A
    counter that is new in a target whose last answer was complete was born since, and counts from zero.
    """

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self._last: Scrape | None = None
        self._memory: dict[Series, float] = {}
        self._missing_since: dict[Series, float] = {}

    def step(self, scrape: Scrape) -> Step | None:
        """Return what `scrape` adds, or None when it is not newer than the one before (counted in `faults`)."""
        last = self._last
        if last is not None and scrape.at_s <= last.at_s:
            if last.at_s - scrape.at_s <= MAX_BACKSTEP_S:
                self.faults["duplicate_scrape" if scrape.at_s == last.at_s else "out_of_order_scrape"] += 1
                return None
            self.faults["clock_stepped_back"] += 1
            last = None
        step = Step(scrape.at_s, gauges={s: v for s, v in scrape.values.items() if not s.monotone})
        if last is not None and scrape.at_s - last.at_s <= MAX_PAIR_GAP_S:
            step.covered_s = scrape.at_s - last.at_s
            step.restarted = _start_changed(last, scrape)
            step.increases = self._increases(last, scrape, step.restarted)
        elif last is not None:
            step.restarted = _start_changed(last, scrape)
            self.faults["long_gap"] += 1
        self._remember(scrape, forget=step.restarted or step.covered_s == 0.0)
        return step

    def _increases(self, last: Scrape, scrape: Scrape, restarted: bool) -> dict[Series, float]:
        counters = {s: v for s, v in scrape.values.items() if s.monotone}
        if restarted:
            self.faults["restart"] += 1
            return counters
        out: dict[Series, float] = {}
        memory, known, born_counts = self._memory, last.known, last.complete
        decreased: set[str] = set()
        for series, value in counters.items():
            before = memory.get(series)
            if before is not None:
                out[series] = value - before
                if value < before:
                    decreased.add(series.group)
            elif born_counts and series not in known:
                out[series] = value
        if decreased:
            self.faults["counter_reset"] += len(decreased)
            for series, value in counters.items():
                if series.group in decreased:  # all buckets of a histogram restart together
                    out[series] = value
        return out

    def _remember(self, scrape: Scrape, *, forget: bool) -> None:
        """Keep last values; of a series that is missing now and then, until it has been away for `MAX_PAIR_GAP_S`."""
        self._last = scrape
        if forget:
            self._memory.clear()
            self._missing_since.clear()
        for series, value in scrape.values.items():
            if series.monotone:
                self._memory[series] = value
        missing = self._memory.keys() - scrape.values.keys()
        since = {series: self._missing_since.get(series, scrape.at_s) for series in missing}
        for series in [s for s, at_s in since.items() if scrape.at_s - at_s > MAX_PAIR_GAP_S]:
            del self._memory[series], since[series]
        self._missing_since = since


def _start_changed(last: Scrape, scrape: Scrape) -> bool:
    if last.start_s is None or scrape.start_s is None:
        return False
    return abs(scrape.start_s - last.start_s) > START_TOLERANCE_S
