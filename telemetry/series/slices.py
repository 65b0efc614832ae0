"""A slice: what one source did in a span of time, summed by selector. All KPIs are evaluated from slices."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from telemetry.series.catalog import Kind, Selector
from telemetry.series.deltas import Step


@dataclass(slots=True)
class Slice:
    """Sums of one source over a span. Slices of the same source add up exactly; of different sources they never mix.

    Attributes:
        host: what `per_host` metrics are counted once for; empty when unknown.
        covered_s: seconds between the pairs of samples that increases come from.
        observed: sample names seen, which tells "none" from "not exposed".
        increases: sum of increases by selector.
        levels: (sum of the selector's totals, number of scrapes) by selector.
        buckets: increases by upper bound (cumulative, as exposed) by selector.
    """

    host: str = ""
    covered_s: float = 0.0
    observed: set[str] = field(default_factory=set)
    increases: dict[Selector, float] = field(default_factory=dict)
    levels: dict[Selector, tuple[float, int]] = field(default_factory=dict)
    buckets: dict[Selector, dict[float, float]] = field(default_factory=dict)

    def increase(self, selector: Selector) -> float | None:
        """Return the increase; 0.0 where the metric was seen without such labels, None where it is not exposed."""
        found = self.increases.get(selector)
        if found is not None:
            return found
        return 0.0 if selector.family.absent_is_none and selector.name in self.observed else None

    def rate(self, selector: Selector) -> float | None:
        """Return the increase per second, None without a pair of samples."""
        increase = self.increase(selector)
        return None if increase is None or self.covered_s <= 0 else increase / self.covered_s

    def level(self, selector: Selector) -> float | None:
        """Return the mean over the span of the gauge's total, None when it was not seen."""
        total, count = self.levels.get(selector, (0.0, 0))
        return total / count if count else None

    def add(self, other: "Slice") -> None:
        """Add a slice of the same source."""
        self.covered_s += other.covered_s
        self.observed |= other.observed
        for selector, value in other.increases.items():
            self.increases[selector] = self.increases.get(selector, 0.0) + value
        for selector, (total, count) in other.levels.items():
            mine = self.levels.get(selector, (0.0, 0))
            self.levels[selector] = (mine[0] + total, mine[1] + count)
        for selector, bounds in other.buckets.items():
            into = self.buckets.setdefault(selector, {})
            for bound, value in bounds.items():
                into[bound] = into.get(bound, 0.0) + value


def slice_of_step(step: Step, host: str = "") -> Slice:
    """Reduce one step to its selectors."""
    out = Slice(host, step.covered_s)
    for series, value in step.increases.items():
        out.observed.add(series.name)
        for selector in series.selectors:
            add_increase(out, selector, series.bound, value)
    for series, value in step.gauges.items():
        out.observed.add(series.name)
        for selector in series.selectors:
            total, _ = out.levels.get(selector, (0.0, 0))
            out.levels[selector] = (total + value, 1)
    return out


def add_increase(out: Slice, selector: Selector, bound: float | None, value: float) -> None:
    """Add one series' increase to a selector of `out`: into its bucket where it reads buckets."""
    if bound is not None and selector.family.kind is Kind.HISTOGRAM and selector.name == selector.family.name:
        into = out.buckets.setdefault(selector, {})
        into[bound] = into.get(bound, 0.0) + value
    else:
        out.increases[selector] = out.increases.get(selector, 0.0) + value


def merged(slices: Iterable[Slice], host: str = "") -> Slice:
    """Return the sum of slices of one source."""
    out = Slice(host)
    for part in slices:
        out.add(part)
    return out
