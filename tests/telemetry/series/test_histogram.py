"""Merged percentiles against an independent reading of pooled observations, and Prometheus' rules at the edges."""

import math
from bisect import bisect_left
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.series.histogram import merge, quantile

INF = math.inf


def cumulative(bounds: list[float], observations: list[float]) -> dict[float, float]:
    """Return the histogram that an exporter would expose."""
    return {b: float(sum(o <= b for o in observations)) for b in (*bounds, INF)}


def oracle(q: float, bounds: list[float], observations: list[float]) -> float:
    """Prometheus' definition, written from its documentation with exact fractions over per-bucket counts."""
    edges = [*sorted(bounds), INF]
    counts = [0] * len(edges)
    for value in observations:
        counts[bisect_left(edges, value)] += 1
    rank = Fraction(q) * len(observations)
    below = 0
    for index, count in enumerate(counts[:-1]):
        if below + count >= rank:
            if index == 0 and edges[0] <= 0:
                return edges[0]
            lower = edges[index - 1] if index else 0.0
            inside = rank - below
            return (
                lower
                if count == 0
                else float(Fraction(lower) + (Fraction(edges[index]) - Fraction(lower)) * inside / count)
            )
        below += count
    return edges[-2]


bounds_lists = st.lists(st.integers(1, 200), min_size=1, max_size=12, unique=True).map(
    lambda b: sorted(x / 8 for x in b)
)
observation_lists = st.lists(st.integers(0, 240).map(lambda x: x / 8), max_size=60)
quantiles = st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999])


@given(bounds_lists, st.lists(observation_lists, min_size=1, max_size=5), quantiles)
@settings(max_examples=400, deadline=None)
def test_merged_quantile_equals_quantile_of_pooled_buckets(
    bounds: list[float], parts: list[list[float]], q: float
) -> None:
    pooled = [value for part in parts for value in part]
    found = quantile(q, merge(cumulative(bounds, part) for part in parts))
    if not pooled:
        assert found is None
    else:
        assert found == pytest.approx(oracle(q, bounds, pooled), rel=1e-9, abs=1e-12)


@given(bounds_lists, bounds_lists, observation_lists, observation_lists)
@settings(max_examples=200, deadline=None)
def test_merge_of_different_layouts_is_exact_on_the_common_bounds(
    bounds_a: list[float], bounds_b: list[float], a: list[float], b: list[float]
) -> None:
    found = merge([cumulative(bounds_a, a), cumulative(bounds_b, b)])
    for bound, count in found.items():
        assert count == sum(o <= bound for o in a + b)
    if a and b:
        assert set(found) == {*bounds_a, INF} & {*bounds_b, INF}


def test_quantile_in_the_infinite_bucket_is_the_highest_finite_bound() -> None:
    assert quantile(0.99, {1.0: 1.0, 2.0: 2.0, INF: 100.0}) == 2.0


def test_quantile_without_observations_or_infinite_bucket_is_none() -> None:
    assert quantile(0.5, {}) is None
    assert quantile(0.5, {INF: 10.0}) is None
    assert quantile(0.5, {1.0: 0.0, INF: 0.0}) is None
    assert quantile(0.5, {1.0: 5.0, 2.0: 5.0}) is None


def test_quantile_of_buckets_that_run_backwards_is_still_monotone() -> None:
    values = [quantile(q / 10, {1.0: 5.0, 2.0: 4.0, 3.0: 9.0, INF: 10.0}) for q in range(1, 10)]
    assert values == sorted(values)


def test_quantile_first_bucket_below_zero_is_its_bound() -> None:
    assert quantile(0.1, {-1.0: 5.0, INF: 10.0}) == -1.0


def test_merge_ignores_histograms_without_observations() -> None:
    assert merge([{1.0: 0.0, INF: 0.0}, {2.0: 3.0, INF: 4.0}]) == {2.0: 3.0, INF: 4.0}
