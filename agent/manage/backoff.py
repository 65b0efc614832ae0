"""How long to wait before trying again."""

import secrets

MAX_DELAY_S = 15.0

_random = secrets.SystemRandom()


class Backoff:
    """Doubling delays with full jitter in their upper half, so that a fleet does not come back in step."""

    def __init__(self, first_s: float = 0.5, max_s: float = MAX_DELAY_S) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._failures = 0

    def next_s(self, at_least_s: float | None = None) -> float:
        """Return the next delay: never above the maximum, and as long as the other side asked for within it."""
        ceiling = min(self._max_s, self._first_s * (1 << min(self._failures, 16)))
        self._failures += 1
        delay_s = ceiling * float(_random.uniform(0.5, 1.0))
        return min(self._max_s, max(delay_s, at_least_s or 0.0))

    def reset(self) -> None:
        """Begin anew after a success."""
        self._failures = 0


def jittered_s(interval_s: float) -> float:
    """Return an interval shortened by up to a tenth, so that agents started together drift apart."""
    return interval_s * float(_random.uniform(0.9, 1.0))
