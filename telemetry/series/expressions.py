"""What a KPI computes, as data: each expression names its selectors, evaluates slices and writes its own formula.

`evaluate` takes one slice per source (an agent, an engine). None is a gap: no data is never zero. A source takes part
only if it exposes everything that the expression reads, so that one without cannot dilute a ratio.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from telemetry.series.catalog import Selector
from telemetry.series.histogram import merge, quantile
from telemetry.series.slices import Slice


class Expression(Protocol):
    """Anything a KPI may compute."""

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """What is read."""

    def evaluate(self, slices: Sequence[Slice]) -> float | None:
        """Return the value over all `slices`, None without data."""

    @property
    def formula(self) -> str:
        """The formula as text, in the metric names that are read."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Sum of increases over sum of increases, over all sources."""

    numerators: tuple[Selector, ...]
    denominators: tuple[Selector, ...]

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """What is read."""
        return self.numerators + self.denominators

    def evaluate(self, slices: Sequence[Slice]) -> float | None:
        """Return Σ numerators / Σ denominators; None when nothing was counted below."""
        above = below = 0.0
        for part in slices:
            over, under = _increases(part, self.numerators), _increases(part, self.denominators)
            if over is not None and under is not None:
                above += over
                below += under
        return above / below if below > 0 else None

    @property
    def formula(self) -> str:
        """The formula as text."""
        return f"Σ Δ({_sum(self.numerators)}) / Σ Δ({_sum(self.denominators)})"


@dataclass(frozen=True, slots=True)
class SourceRatios:
    """Sum over sources of each one's own ratio of increases: for rates per a time that each source keeps itself."""

    numerators: tuple[Selector, ...]
    denominators: tuple[Selector, ...]

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """What is read."""
        return self.numerators + self.denominators

    def evaluate(self, slices: Sequence[Slice]) -> float | None:
        """Return Σ (numerators / denominators) over the sources whose denominator moved."""
        values = []
        for part in slices:
            over, under = _increases(part, self.numerators), _increases(part, self.denominators)
            if over is not None and under is not None and under > 0:
                values.append(over / under)
        return sum(values) if values else None

    @property
    def formula(self) -> str:
        """The formula as text."""
        return f"Σ over sources of Δ({_sum(self.numerators)}) / Δ({_sum(self.denominators)})"


@dataclass(frozen=True, slots=True)
class Rate:
    """Increase per second, summed over sources."""

    counters: tuple[Selector, ...]

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """What is read."""
        return self.counters

    def evaluate(self, slices: Sequence[Slice]) -> float | None:
        """Return the sum of rates per second."""
        values = []
        for part in _once_per_host(slices, self.counters):
            increase = _increases(part, self.counters)
            if increase is not None and part.covered_s > 0:
                values.append(increase / part.covered_s)
        return sum(values) if values else None

    @property
    def formula(self) -> str:
        """The formula as text."""
        return f"Σ rate({_sum(self.counters)})"


@dataclass(frozen=True, slots=True)
class Level:
    """A gauge, summed over its matching series and over sources; over a span, its mean."""

    gauge: Selector

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """What is read."""
        return (self.gauge,)

    def evaluate(self, slices: Sequence[Slice]) -> float | None:
        """Return the sum of the sources' levels."""
        values = [level for part in slices if (level := part.level(self.gauge)) is not None]
        return sum(values) if values else None

    @property
    def formula(self) -> str:
        """The formula as text."""
        return f"Σ {self.gauge}"


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile (0 < q < 1) of the merged histogram."""

    q: float
    histogram: Selector

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """What is read."""
        return (self.histogram,)

    def evaluate(self, slices: Sequence[Slice]) -> float | None:
        """Return the quantile of all sources' observations in the span."""
        return quantile(self.q, merge(part.buckets.get(self.histogram, {}) for part in slices))

    @property
    def formula(self) -> str:
        """The formula as text."""
        return f"histogram_quantile({self.q:g}, Σ by (le) Δ {self.histogram.name}_bucket)"


def _increases(part: Slice, selectors: Iterable[Selector]) -> float | None:
    total = 0.0
    for selector in selectors:
        value = part.increase(selector)
        if value is None:
            return None
        total += value
    return total


def _once_per_host(slices: Iterable[Slice], selectors: Sequence[Selector]) -> Iterator[Slice]:
    if not any(selector.family.per_host for selector in selectors):
        yield from slices
        return
    seen: set[str] = set()
    for part in slices:
        if part.host and part.host in seen:
            continue
        if _increases(part, selectors) is None or part.covered_s <= 0:
            continue
        seen.add(part.host)
        yield part


def _sum(selectors: Sequence[Selector]) -> str:
    return " + ".join(str(selector) for selector in selectors)
