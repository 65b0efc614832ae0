"""Resolutions of the store and which of them answers a question. Pure."""

import math
from dataclasses import dataclass

RAW_S, TEN_S, FIVE_MIN_S = 1, 10, 300
ROLLUP_LEVELS_S = (TEN_S, FIVE_MIN_S)
MAX_POINTS = 3000
"""Points of one answer; a longer one is a mistake or an attack."""
NICE_STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long each level is kept, in seconds."""

    raw_s: float
    ten_s: float
    five_min_s: float

    def of(self, level_s: int) -> float:
        """Return how long `level_s` is kept."""
        return {RAW_S: self.raw_s, TEN_S: self.ten_s, FIVE_MIN_S: self.five_min_s}[level_s]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a range is answered: points at `start_s + i * step_s`, each over `[t, t + step_s)`, read from `level_s`."""

    start_s: int
    end_s: int
    step_s: int
    level_s: int


def suggest_step(span_s: float, points: int = 600) -> int:
    """Return the smallest round step that shows `span_s` in at most `points` points."""
    return next((step for step in NICE_STEPS_S if span_s / step <= points), NICE_STEPS_S[-1])


def plan(start_s: float, end_s: float, step_s: float, *, now_s: float, retention: Retention) -> Plan:
    """Choose the level: the coarsest that divides the step, among those that still reach back to `start_s`.

    The step grows to a multiple of the finest level that is left. Raises `ValueError` when the range is empty or has
    more than `MAX_POINTS` points.
    """
    if not (math.isfinite(start_s) and math.isfinite(end_s) and math.isfinite(step_s)):
        raise ValueError("start, end and step must be finite numbers")
    if end_s <= start_s:
        raise ValueError("end must lie after start")
    if step_s < RAW_S:
        raise ValueError("the step must be at least 1 s")
    levels = [level for level in (RAW_S, *ROLLUP_LEVELS_S) if start_s >= now_s - retention.of(level)] or [FIVE_MIN_S]
    step = math.ceil(step_s / levels[0]) * levels[0]
    level = max(level for level in levels if step % level == 0)
    start = math.floor(start_s / step) * step
    end = math.ceil(end_s / step) * step
    if (end - start) / step > MAX_POINTS:
        raise ValueError(f"more than {MAX_POINTS} points: choose a larger step or a shorter range")
    return Plan(start, end, step, level)
