"""Prometheus text exposition, parsed with the series' text as key: a line is taken apart in full only when it is new.

Nothing in a body is fatal. What cannot be used is dropped and counted, by name, in `Exposition.faults`.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

from telemetry.series.catalog import Catalog, Series
from telemetry.series.text import MAX_LINE_CHARS, SeriesLimitError, SeriesTextError, parse_series

MAX_SKEW_S = 600.0
"""An exposed timestamp further from our clock than this is not believed (Prometheus' own bound for the future)."""


class Fault(StrEnum):
    """Why a line was dropped or doubted."""

    GARBAGE_LINE = "garbage_line"
    LINE_TOO_LONG = "line_too_long"
    LABEL_LIMIT = "label_limit"
    SERIES_LIMIT = "series_limit"
    NOT_FINITE = "not_finite"
    NEGATIVE_COUNTER = "negative_counter"
    DUPLICATE_SERIES = "duplicate_series"
    OUT_OF_ORDER = "out_of_order"
    DUPLICATE_TIMESTAMP = "duplicate_timestamp"
    CLOCK_SKEW = "clock_skew"


@dataclass(slots=True)
class Exposition:
    """One parsed body: values of the catalogue's series, lines of other metrics, and faults by name."""

    values: dict[Series, float] = field(default_factory=dict)
    unknown_samples: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def complete(self) -> bool:
        """True when no sample of the catalogue may have been lost: only then does absence mean something."""
        return not self.faults.keys() & _LOSSY


_LOSSY = {Fault.GARBAGE_LINE, Fault.LINE_TOO_LONG, Fault.SERIES_LIMIT}


class ExpositionParser:
    """Parses the bodies of one target. Remembers at most `max_series` lines, so that a cardinality bomb stays small."""

    def __init__(self, catalog: Catalog, max_series: int) -> None:
        self._catalog = catalog
        self._max_series = max_series
        self._known: dict[str, Series] = {}
        self._stamps: dict[Series, tuple[float, float]] = {}

    def parse(self, body: bytes, now_s: float) -> Exposition:
        """Parse `body`; `now_s` (unix time) judges exposed timestamps. Never raises for what a target sends."""
        out = Exposition()
        values = out.values
        known = self._known
        room = self._max_series
        for line in body.decode("utf-8", "replace").split("\n"):
            key, _, text = line.rpartition(" ")
            series = known.get(key)
            if series is None:
                self._slow(line, now_s, out)
                continue
            try:
                value = float(text)
            except ValueError:
                self._slow(line, now_s, out)
                continue
            if not isfinite(value) or "_" in text or (value < 0 and series.monotone):
                out.faults[_fault_of(value, text)] += 1
            elif series in values:
                out.faults[Fault.DUPLICATE_SERIES] += 1
            elif len(values) >= room:
                out.faults[Fault.SERIES_LIMIT] += 1
            else:
                values[series] = value
        self._forget(values)
        return out

    def _slow(self, line: str, now_s: float, out: Exposition) -> None:
        line = line.strip()
        if not line or line[0] == "#":
            return
        if len(line) > MAX_LINE_CHARS:
            out.faults[Fault.LINE_TOO_LONG] += 1
            return
        try:
            name, labels, end = parse_series(line)
            value, stamp_s = parse_value(line[end:], after_labels=line[end - 1] == "}")
            series = self._catalog.series(name, labels)
        except SeriesLimitError:
            out.faults[Fault.LABEL_LIMIT] += 1
            return
        except SeriesTextError:
            out.faults[Fault.GARBAGE_LINE] += 1
            return
        if series is None:
            out.unknown_samples += 1
            return
        fault = self._admit(series, value, stamp_s, now_s, out)
        if fault:
            out.faults[fault] += 1
            return
        out.values[series] = value
        if stamp_s is None and len(self._known) < 2 * self._max_series:
            self._known[line[:end]] = series

    def _admit(
        self, series: Series, value: float, stamp_s: float | None, now_s: float, out: Exposition
    ) -> Fault | None:
        """Return why a sample must be dropped, else None. A timestamp that is not believed is replaced by our own."""
        if not isfinite(value):
            return Fault.NOT_FINITE
        if value < 0 and series.monotone:
            return Fault.NEGATIVE_COUNTER
        if series in out.values:
            return Fault.DUPLICATE_SERIES
        if len(out.values) >= self._max_series:
            return Fault.SERIES_LIMIT
        if stamp_s is None:
            return None
        if not abs(stamp_s - now_s) <= MAX_SKEW_S:
            out.faults[Fault.CLOCK_SKEW] += 1
            return None
        last_s, last_value = self._stamps.get(series, (float("-inf"), value))
        if stamp_s < last_s:
            return Fault.OUT_OF_ORDER
        if stamp_s == last_s and value != last_value:
            return Fault.DUPLICATE_TIMESTAMP
        self._stamps[series] = (stamp_s, value)
        return None

    def _forget(self, values: dict[Series, float]) -> None:
        """Drop what is no longer exposed once it outweighs what is."""
        if len(self._known) > 2 * len(values) + 64:
            self._known = {key: series for key, series in self._known.items() if series in values}
        if len(self._stamps) > 2 * len(values) + 64:
            self._stamps = {series: stamp for series, stamp in self._stamps.items() if series in values}


def parse_value(text: str, *, after_labels: bool = False) -> tuple[float, float | None]:
    """Return value and timestamp (unix seconds, exposed as milliseconds) of what follows a series on its line.

    Raises `SeriesTextError` when it is anything else.
    """
    if not after_labels and text[:1] not in (" ", "\t"):
        raise SeriesTextError("no blank behind the metric name")
    parts = text.split()
    if not 1 <= len(parts) <= 2 or "_" in text:
        raise SeriesTextError("not one value and at most one timestamp")
    try:
        value = float(parts[0])
        stamp_s = float(parts[1]) / 1000 if len(parts) == 2 else None
    except ValueError as error:
        raise SeriesTextError("not a number") from error
    return value, stamp_s


def _fault_of(value: float, text: str) -> Fault:
    if "_" in text:
        return Fault.GARBAGE_LINE
    return Fault.NEGATIVE_COUNTER if isfinite(value) else Fault.NOT_FINITE
