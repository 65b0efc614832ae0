"""Requests start when the trace says, and what happens when that cannot be."""

import threading
import time
from collections.abc import Callable, Iterator

from bench.replay.metrics import ReplayMetrics
from bench.replay.pacing import MAX_LAG_S, PacedReplay
from bench.replay.source import SourceError, TimedRequest
from kvcache.trace import Request
from tests.bench.conftest import series
from tests.bench.replay.conftest import request
from tests.support.servers import wait_until


class Stage:
    """Stands in for the player: notes when each request is played, and may take its time."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.played_at_s: list[float] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._takes_s = takes_s

    def play(self, one: Request) -> None:
        with self._lock:
            self.played_at_s.append(time.monotonic())
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        if one.session == "explode":
            raise RuntimeError("a fault in the player")
        time.sleep(self._takes_s)
        with self._lock:
            self._now -= 1


class Ended:
    """Remembers how a replay ended."""

    def __init__(self) -> None:
        self.reasons: list[Exception | None] = []

    def __call__(self, reason: Exception | None) -> None:
        self.reasons.append(reason)


def _every(step_s: float, count: int) -> Iterator[TimedRequest]:
    for number in range(count):
        yield TimedRequest(number * step_s, request(number))


def _replay(
    stage: Stage, requests: Iterator[TimedRequest], speedup: float, workers: int = 4
) -> tuple[PacedReplay, ReplayMetrics, Ended]:
    metrics, ended = ReplayMetrics(trace="t", model="m", payload_bytes=64), Ended()
    replay = PacedReplay(stage, requests, metrics, speedup=speedup, workers=workers, on_end=ended)  # type: ignore[arg-type]
    return replay, metrics, ended


def _value(metrics: ReplayMetrics, name: str) -> float:
    return series(metrics.exposition().decode())[name]


def test_requests_start_at_the_traces_times_divided_by_the_speedup() -> None:
    stage = Stage()
    replay, metrics, ended = _replay(stage, _every(2.0, 11), speedup=20.0)
    started_s = time.monotonic()
    replay.start()
    wait_until(lambda: len(stage.played_at_s) == 11, timeout_s=10)
    replay.stop()
    late_s = [at - started_s - number * 0.1 for number, at in enumerate(stage.played_at_s)]
    assert min(late_s) > -0.005, "no request starts early"
    assert sorted(late_s)[5] < 0.1
    assert _value(metrics, "kvfabric_replay_trace_seconds_total") == 20.0
    assert ended.reasons == [None]


def test_requests_in_flight_are_bounded_and_lag_shows() -> None:
    stage = Stage(takes_s=0.05)
    replay, metrics, _ = _replay(stage, _every(0.001, 60), speedup=1.0, workers=2)
    replay.start()
    wait_until(lambda: _value(metrics, "kvfabric_replay_pacing_lag_seconds") > 0.1, timeout_s=10)
    assert _value(metrics, 'vllm:num_requests_waiting{model_name="m"}') > 2
    assert _value(metrics, 'vllm:num_requests_running{model_name="m"}') == 2
    wait_until(lambda: len(stage.played_at_s) == 60, timeout_s=10)
    replay.stop()
    assert stage.most_at_once == 2


def test_large_lag_is_given_up_and_counted(monkeypatch) -> None:
    monkeypatch.setattr("bench.replay.pacing.MAX_LAG_S", 0.2)
    assert MAX_LAG_S == 5.0
    stage = Stage(takes_s=0.5)
    replay, metrics, _ = _replay(stage, _every(0.01, 40), speedup=1.0, workers=1)
    replay.start()
    wait_until(lambda: _value(metrics, "kvfabric_replay_pacing_skipped_seconds_total") > 0.2, timeout_s=15)
    replay.stop()


def test_stop_does_not_wait_for_the_next_request() -> None:
    stage = Stage()
    replay, _, ended = _replay(stage, _every(3600.0, 2), speedup=1.0)
    replay.start()
    wait_until(lambda: len(stage.played_at_s) == 1, timeout_s=5)
    started_s = time.monotonic()
    replay.stop()
    assert time.monotonic() - started_s < 2
    assert ended.reasons == []


def test_bad_line_ends_the_replay_with_its_reason() -> None:
    def broken() -> Iterator[TimedRequest]:
        yield TimedRequest(0.0, request(1))
        raise SourceError("t.jsonl: line 2, field timestamp: the field is missing")

    replay, _, ended = _replay(Stage(), broken(), speedup=1.0)
    replay.start()
    wait_until(lambda: bool(ended.reasons), timeout_s=5)
    replay.stop()
    assert isinstance(ended.reasons[0], SourceError)


def test_fault_in_the_player_ends_the_replay_instead_of_silencing_a_worker() -> None:
    quiet: Callable[[object], None] = lambda _: None  # noqa: E731
    hook, threading.excepthook = threading.excepthook, quiet
    try:
        replay, _, ended = _replay(Stage(), iter([TimedRequest(0.0, request(1, session="explode"))]), speedup=1.0)
        replay.start()
        wait_until(lambda: any(isinstance(reason, RuntimeError) for reason in ended.reasons), timeout_s=5)
        replay.stop()
    finally:
        threading.excepthook = hook
