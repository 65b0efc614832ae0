"""Counter resets, restarts, gaps, time that runs backwards: never a negative increase, nothing counted twice."""

from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.series.catalog import Catalog, Family, Kind, Series
from telemetry.series.deltas import MAX_PAIR_GAP_S, DeltaWalker, Scrape, Step

CATALOG = Catalog(
    [
        Family("c_total", Kind.COUNTER),
        Family("d_total", Kind.COUNTER),
        Family("g", Kind.GAUGE),
        Family("h", Kind.HISTOGRAM),
    ]
)


def series(text: str) -> Series:
    found = CATALOG.from_text(text)
    assert found is not None
    return found


C, D, G = series("c_total"), series("d_total"), series("g")


def walk(
    *rows: tuple[float, dict[Series, float]], start_s: float | None = None
) -> tuple[list[Step | None], DeltaWalker]:
    walker = DeltaWalker()
    known: set[Series] = set()
    steps = []
    for at_s, values in rows:
        known |= values.keys()
        steps.append(walker.step(Scrape(at_s, values, frozenset(known), start_s)))
    return steps, walker


def increases(steps: list[Step | None], one: Series = C) -> list[float | None]:
    return [None if step is None else step.increases.get(one) for step in steps]


def test_step_first_scrape_has_no_increase() -> None:
    steps, _ = walk((1, {C: 100.0, G: 5.0}))
    assert increases(steps) == [None]
    assert steps[0]
    assert steps[0].gauges == {G: 5.0}
    assert steps[0].covered_s == 0.0


def test_step_growth_is_difference_over_covered_seconds() -> None:
    steps, _ = walk((1, {C: 100.0}), (3, {C: 107.0}))
    assert increases(steps) == [None, 7.0]
    assert steps[1]
    assert steps[1].covered_s == 2.0


def test_step_decrease_counts_the_new_value_and_is_counted() -> None:
    steps, walker = walk((1, {C: 100.0}), (2, {C: 4.0}), (3, {C: 6.0}))
    assert increases(steps) == [None, 4.0, 2.0]
    assert walker.faults == {"counter_reset": 1}


def test_step_changed_start_time_counts_the_new_values_even_where_they_grew() -> None:
    walker = DeltaWalker()
    walker.step(Scrape(1, {C: 10.0, D: 90.0}, {C, D}, start_s=1000))
    step = walker.step(Scrape(2, {C: 50.0, D: 3.0}, {C, D}, start_s=2000))
    assert step
    assert step.restarted
    assert step.increases == {C: 50.0, D: 3.0}
    assert walker.faults == {"restart": 1}


def test_step_jitter_of_a_computed_start_time_is_no_restart() -> None:
    walker = DeltaWalker()
    walker.step(Scrape(1, {C: 10.0}, {C}, start_s=1000.2))
    step = walker.step(Scrape(2, {C: 11.0}, {C}, start_s=1000.7))
    assert step
    assert not step.restarted
    assert step.increases == {C: 1.0}


def test_step_one_reset_bucket_resets_its_whole_histogram_and_no_other() -> None:
    low, high, other = series('h_bucket{le="1"}'), series('h_bucket{le="+Inf"}'), series('h_bucket{m="x",le="+Inf"}')
    steps, _ = walk((1, {low: 5.0, high: 9.0, other: 4.0}), (2, {low: 6.0, high: 8.0, other: 5.0}))
    assert steps[1]
    assert steps[1].increases == {low: 6.0, high: 8.0, other: 1.0}


def test_step_new_counter_in_a_known_target_counts_from_zero() -> None:
    steps, _ = walk((1, {C: 1.0}), (2, {C: 1.0, D: 5.0}))
    assert increases(steps, D) == [None, 5.0]


def test_step_new_counter_after_an_incomplete_scrape_has_no_increase() -> None:
    walker = DeltaWalker()
    walker.step(Scrape(1, {C: 1.0}, {C}, complete=False))
    step = walker.step(Scrape(2, {C: 1.0, D: 5000.0}, {C, D}))
    assert step
    assert D not in step.increases


def test_step_missing_series_catches_up_without_a_spike() -> None:
    steps, _ = walk((1, {C: 100.0, D: 1.0}), (2, {D: 2.0}), (3, {C: 103.0, D: 3.0}))
    assert increases(steps) == [None, None, 3.0]


def test_step_series_missing_for_too_long_starts_anew_without_a_spike() -> None:
    rows = [(1.0, {C: 100.0, D: 1.0})] + [(1.0 + i, {D: 1.0}) for i in range(60, 600, 60)]
    steps, _ = walk(*rows, (601.0, {C: 5000.0, D: 1.0}), (602.0, {C: 5001.0, D: 1.0}))
    assert increases(steps)[-2:] == [None, 1.0]


def test_step_gap_within_the_bound_is_spread_over_its_seconds() -> None:
    steps, _ = walk((0, {C: 0.0}), (60, {C: 600.0}))
    assert steps[1]
    assert steps[1].increases[C] / steps[1].covered_s == 10.0


def test_step_gap_past_the_bound_is_a_gap() -> None:
    steps, walker = walk((0, {C: 0.0}), (MAX_PAIR_GAP_S + 1, {C: 600.0}), (MAX_PAIR_GAP_S + 2, {C: 601.0}))
    assert increases(steps) == [None, None, 1.0]
    assert walker.faults == {"long_gap": 1}


def test_step_duplicate_and_out_of_order_scrapes_are_dropped_and_counted() -> None:
    steps, walker = walk((10, {C: 1.0}), (10, {C: 2.0}), (9, {C: 3.0}), (11, {C: 4.0}))
    assert increases(steps) == [None, None, None, 3.0]
    assert walker.faults == {"duplicate_scrape": 1, "out_of_order_scrape": 1}


def test_step_clock_set_back_starts_anew_instead_of_waiting() -> None:
    steps, walker = walk((10_000, {C: 1.0}), (5_000, {C: 2.0}), (5_001, {C: 5.0}))
    assert increases(steps) == [None, None, 3.0]
    assert walker.faults == {"clock_stepped_back": 1}


event = st.one_of(
    st.tuples(st.just("add"), st.floats(0, 1e6)),
    st.tuples(st.just("reset"), st.floats(0, 1e3)),
    st.tuples(st.just("restart"), st.floats(0, 1e3)),
    st.tuples(st.just("miss"), st.just(0.0)),
)


@given(st.lists(st.tuples(event, st.floats(-2, 400)), max_size=60), st.booleans())
@settings(max_examples=400, deadline=None)
def test_random_histories_never_give_a_negative_rate(history: list, tells_start: bool) -> None:
    walker = DeltaWalker()
    at_s, value, start_s = 1000.0, 0.0, 500.0
    for (kind, amount), pause_s in history:
        at_s += pause_s
        value = value + amount if kind == "add" else amount if kind in ("reset", "restart") else value
        start_s = at_s if kind == "restart" else start_s
        values = {} if kind == "miss" else {C: value}
        step = walker.step(Scrape(at_s, values, {C}, start_s if tells_start else None))
        if step is not None:
            assert step.covered_s >= 0.0
            assert all(increase >= 0.0 for increase in step.increases.values())
            assert not step.increases or step.covered_s > 0.0


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), min_size=1, max_size=50))
@settings(max_examples=200, deadline=None)
def test_increases_add_up_to_what_was_counted_whatever_was_missed(amounts: list[tuple[int, bool]]) -> None:
    rows = [(0.0, {C: 0.0, D: 0.0})]
    value = 0
    for index, (amount, exposed) in enumerate(amounts):
        value += amount
        rows.append((index + 1.0, {C: float(value), D: 0.0} if exposed else {D: 0.0}))
    rows.append((len(amounts) + 1.0, {C: float(value), D: 0.0}))
    steps, _ = walk(*rows)
    assert sum(step.increases.get(C, 0.0) for step in steps if step) == value
