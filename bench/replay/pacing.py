"""Keeps requests to the trace's times, faster by a factor, with a bounded number of them in flight."""

import queue
import threading
import time
from collections.abc import Callable, Iterable

from bench.replay.metrics import ReplayMetrics
from bench.replay.player import Player
from bench.replay.source import SourceError, TimedRequest
from kvcache.trace import Request

MAX_LAG_S = 5.0
"""Lag at which the trace's clock is set anew: after an outage the missed requests are not played in one burst."""
WAITING_PER_WORKER = 8
POLL_S = 0.2


class PacedReplay:
    """A thread that hands requests out when they are due, and workers that play them."""

    def __init__(
        self,
        player: Player,
        requests: Iterable[TimedRequest],
        metrics: ReplayMetrics,
        *,
        speedup: float,
        workers: int,
        on_end: Callable[[Exception | None], None],
    ) -> None:
        """`on_end` is called from a thread, once, when the trace cannot go on: with the reason, or None at its end."""
        self._player = player
        self._requests = requests
        self._metrics = metrics
        self._speedup = speedup
        self._on_end = on_end
        self._stop = threading.Event()
        self._due: queue.Queue[Request] = queue.Queue(maxsize=workers * WAITING_PER_WORKER)
        self._threads = [threading.Thread(target=self._feed, name="replay-pacer", daemon=True)]
        self._threads += [
            threading.Thread(target=self._work, name=f"replay-{number}", daemon=True) for number in range(workers)
        ]

    def start(self) -> None:
        """Begin; the first request is due now."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Let requests in flight end and start no other; give up waiting after `timeout_s`."""
        self._stop.set()
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def _feed(self) -> None:
        reason: Exception | None = None
        try:
            self._pace()
        except SourceError as error:
            reason = error
        except Exception as error:
            reason = error
            raise
        finally:
            if not self._stop.is_set():
                self._on_end(reason)

    def _pace(self) -> None:
        zero_s = time.monotonic()
        played_s = 0.0
        for timed in self._requests:
            early_s = zero_s + timed.due_s / self._speedup - time.monotonic()
            if self._stop.wait(max(0.0, early_s)):
                return
            lag_s = max(0.0, -early_s)
            if lag_s > MAX_LAG_S:
                zero_s += lag_s
                self._metrics.skipped_s.inc(lag_s)
                lag_s = 0.0
            self._metrics.lag_s.set(lag_s)
            self._metrics.trace_seconds.inc(max(0.0, timed.due_s - played_s))
            played_s = timed.due_s
            if not self._hand_out(timed.request):
                return

    def _hand_out(self, request: Request) -> bool:
        while not self._stop.is_set():
            try:
                self._due.put(request, timeout=POLL_S)
            except queue.Full:
                continue
            self._metrics.waiting.set(self._due.qsize())
            return True
        return False

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    request = self._due.get(timeout=POLL_S)
                except queue.Empty:
                    continue
                self._metrics.waiting.set(self._due.qsize())
                with self._metrics.running.track_inprogress():
                    self._player.play(request)
        except Exception as error:
            self._on_end(error)
            raise
