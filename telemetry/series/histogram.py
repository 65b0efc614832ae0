"""Percentiles from histograms: merged first, read afterwards, never averaged."""

import math
from collections.abc import Iterable, Mapping


def merge(histograms: Iterable[Mapping[float, float]]) -> dict[float, float]:
    """Return the sum of histograms given as {upper bound: cumulative count}.

    Where layouts differ only the bounds that all of them have are kept: coarser, and exact. Those without observations
    do not take part.
    """
    parts = [h for h in histograms if h and max(h.values()) > 0]
    if not parts:
        return {}
    bounds = set(parts[0]).intersection(*parts[1:])
    return {bound: sum(part[bound] for part in parts) for bound in sorted(bounds)}


def quantile(q: float, cumulative: Mapping[float, float]) -> float | None:
    """Return the q-quantile by linear interpolation within a bucket, as Prometheus' `histogram_quantile` does.

    A quantile that falls into the +Inf bucket is the highest finite bound (it is at least that). None without
    observations, without a +Inf bucket, or with no other bucket.
    """
    bounds = sorted(cumulative)
    if len(bounds) < 2 or bounds[-1] != math.inf:
        return None
    counts: list[float] = []
    for bound in bounds:  # counts of buckets that were not read at one moment may run backwards a little
        counts.append(max(cumulative[bound], counts[-1] if counts else 0.0))
    total = counts[-1]
    if total <= 0:
        return None
    rank = q * total
    index = next((i for i, count in enumerate(counts[:-1]) if count >= rank), len(counts) - 1)
    if index == len(counts) - 1:
        return bounds[-2]
    if index == 0 and bounds[0] <= 0:
        return bounds[0]
    start = bounds[index - 1] if index else 0.0
    below = counts[index - 1] if index else 0.0
    inside = counts[index] - below
    return start if inside <= 0 else start + (bounds[index] - start) * (rank - below) / inside
