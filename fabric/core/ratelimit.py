"""Counting attempts in fixed windows. Counters live in the process's cache (decision 0005): a limit is per web
process.
"""

import math
import time

from django.core.cache import cache


def register_attempt(scope: str, key: str, *, limit: int, window_s: int) -> int:
    """Count one attempt; return 0 where it is within `limit` of this window, else the seconds until the next window.

    Counting is one atomic step of the cache, so attempts made at the same moment are all counted.
    """
    at_s = now_s()
    window = int(at_s // window_s)
    cache_key = _cache_key(scope, key, window)
    cache.add(cache_key, 0, window_s + 1)
    try:
        count = cache.incr(cache_key)
    except ValueError:  # the window ended between the two calls
        return 0
    return 0 if count <= limit else max(1, math.ceil((window + 1) * window_s - at_s))


def forget_attempts(scope: str, key: str, *, window_s: int) -> None:
    """Drop the count of the current window, after a success."""
    cache.delete(_cache_key(scope, key, int(now_s() // window_s)))


def now_s() -> float:
    """Return the time that windows are cut from."""
    return time.time()


def _cache_key(scope: str, key: str, window: int) -> str:
    # Hex, since cache keys allow neither blanks nor more than 250 characters and `key` may be what a stranger typed.
    return f"attempts.{scope}.{window}.{key.encode(errors='replace').hex()[:160]}"
