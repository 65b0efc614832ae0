"""Which resolution answers which question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.series.levels import MAX_POINTS, NICE_STEPS_S, Retention, plan, suggest_step

KEEP = Retention(3600, 86_400, 30 * 86_400)
NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("ago", "span", "step", "wanted_step", "level"),
    [
        (300, 300, 1, 1, 1),
        (300, 300, 10, 10, 10),
        (300, 300, 15, 15, 1),
        (1800, 1800, 300, 300, 300),
        (7200, 600, 1, 10, 10),
        (7200, 600, 15, 20, 10),
        (7200, 3600, 300, 300, 300),
        (10 * 86_400, 3600, 1, 300, 300),
        (90 * 86_400, 3600, 60, 300, 300),
    ],
)
def test_plan_takes_the_coarsest_level_that_fits(ago: int, span: int, step: int, wanted_step: int, level: int) -> None:
    found = plan(NOW - ago, NOW - ago + span, step, now_s=NOW, retention=KEEP)
    assert (found.step_s, found.level_s) == (wanted_step, level)


@given(st.floats(0, 40 * 86_400), st.floats(1, 40 * 86_400), st.floats(1, 86_400))
def test_plan_covers_what_was_asked_on_step_boundaries(ago: float, span: float, step: float) -> None:
    start, end = NOW - ago, NOW - ago + span
    try:
        found = plan(start, end, step, now_s=NOW, retention=KEEP)
    except ValueError:
        assert span / step > MAX_POINTS - 2
        return
    assert found.start_s <= start
    assert found.end_s >= end
    assert found.step_s >= step
    assert found.start_s % found.step_s == found.end_s % found.step_s == found.step_s % found.level_s == 0
    assert (found.end_s - found.start_s) / found.step_s <= MAX_POINTS


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(0, 0, 1), (10, 5, 1), (0, 10, 0.5), (0, float("inf"), 1), (float("nan"), 1, 1), (0, 10_000, 1)],
)
def test_plan_refuses_what_has_no_answer(start: float, end: float, step: float) -> None:
    with pytest.raises(ValueError):
        plan(start, end, step, now_s=0, retention=KEEP)


@given(st.floats(0, 60 * 86_400))
def test_suggested_step_is_round_and_gives_few_points(span: float) -> None:
    step = suggest_step(span)
    assert step in NICE_STEPS_S
    assert span / step <= 600
