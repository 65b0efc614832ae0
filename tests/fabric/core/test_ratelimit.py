"""Counting attempts."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fabric.core import ratelimit
from fabric.core.ratelimit import forget_attempts, register_attempt


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch):
    """Set the clock."""
    moment = [1_000_000.0]
    monkeypatch.setattr(ratelimit, "now_s", lambda: moment[0])
    return moment


def test_attempts_within_the_limit_pass_and_the_next_one_says_how_long_to_wait(at) -> None:
    at[0] = 60_000_000.0 + 50
    assert [register_attempt("s", "k", limit=3, window_s=60) for _ in range(4)] == [0, 0, 0, 10]


def test_next_window_starts_anew(at) -> None:
    at[0] = 60_000_000.0
    for _ in range(5):
        register_attempt("s", "k", limit=3, window_s=60)
    at[0] += 60
    assert register_attempt("s", "k", limit=3, window_s=60) == 0


def test_keys_and_scopes_are_counted_apart() -> None:
    assert register_attempt("a", "k", limit=1, window_s=60) == 0
    assert register_attempt("b", "k", limit=1, window_s=60) == 0
    assert register_attempt("a", "other", limit=1, window_s=60) == 0


def test_forgotten_attempts_do_not_count(at) -> None:
    register_attempt("s", "k", limit=1, window_s=60)
    forget_attempts("s", "k", window_s=60)
    assert register_attempt("s", "k", limit=1, window_s=60) == 0


def test_attempts_of_many_threads_are_all_counted(at) -> None:
    with ThreadPoolExecutor(20) as pool:
        waits = list(pool.map(lambda _: register_attempt("s", "k", limit=50, window_s=60), range(200)))
    assert waits.count(0) == 50


@pytest.mark.parametrize("key", ["", " ", "a b\n", "é" * 500, "\ud800", "x" * 10_000])
def test_whatever_a_stranger_types_can_be_a_key(key: str) -> None:
    assert register_attempt("s", key, limit=1, window_s=3600) == 0
    assert register_attempt("s", key, limit=1, window_s=3600) > 0


def test_counting_costs_microseconds() -> None:
    started = time.perf_counter()
    for _ in range(1000):
        register_attempt("s", "k", limit=10_000, window_s=60)
    assert time.perf_counter() - started < 1
