"""The scrape loop: at each tick every target is asked, what came is stored, and one frame per topic goes out."""

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import orjson

from telemetry.live.frames import FrameBuilder, Mark
from telemetry.live.publisher import Publisher
from telemetry.live.redis import RedisAddress
from telemetry.scrape.book import TargetBook
from telemetry.scrape.fetch import Fetcher, FetchError, FetchLimits
from telemetry.scrape.lease import Lease
from telemetry.scrape.state import LiveWindows, TargetState
from telemetry.series.store import TickRow
from telemetry.series.writer import SeriesWriter
from telemetry.targets import Target

logger = logging.getLogger(__name__)

SETTLE_SHARE = 0.3
"""Share of an interval after which a tick goes out without the targets that still think; theirs come with the next."""


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    """Interval and limits, from the settings."""

    interval_s: float
    limits: FetchLimits
    max_series: int
    windows: LiveWindows


class Scraper:
    """Owns the loop and the states of all targets. Everything it does runs on one event loop."""

    def __init__(self, options: ScrapeOptions, book: TargetBook, writer: SeriesWriter, address: RedisAddress) -> None:
        self.options = options
        self.book = book
        self.writer = writer
        self.frames = FrameBuilder()
        self.publisher = Publisher(address, self.frames.started_ms)
        self.faults: Counter[str] = Counter()
        self.ticks = 0
        self.states: dict[str, TargetState] = {}
        self._address = address
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._rows: list[TickRow] = []
        self._marks: list[Mark] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Scrape until `stop` is set. Raises `LeaseLost` when another scraper took over."""
        lease = Lease(self._address, self.frames.epoch)
        waiting = asyncio.ensure_future(stop.wait())
        try:
            acquired = asyncio.ensure_future(lease.acquire())
            await asyncio.wait((acquired, waiting), return_when=asyncio.FIRST_COMPLETED)
            acquired.cancel()
            if stop.is_set():
                return
            async with Fetcher(self.options.limits) as fetcher, asyncio.TaskGroup() as group:
                background = [
                    group.create_task(work) for work in (self.book.run(), self.writer.run(), self.publisher.run())
                ]
                background.append(group.create_task(lease.keep()))
                await self.book.refresh()
                await self._loop(fetcher, waiting)
                for task in background:
                    task.cancel()
        finally:
            waiting.cancel()
            await self._end(lease)

    async def tick(self, fetcher: Fetcher, at_s: float) -> None:
        """Ask every target that is not still being asked, wait a moment, then store and publish what is known."""
        self._follow_inventory()
        for key, state in self.states.items():
            if key in self._in_flight:
                state.faults["scrape_still_running"] += 1
                continue
            self._in_flight[key] = asyncio.create_task(self._scrape(fetcher, state))
        if self._in_flight:
            await asyncio.wait(self._in_flight.values(), timeout=SETTLE_SHARE * self.options.interval_s)
        self._in_flight = {key: task for key, task in self._in_flight.items() if not task.done()}
        self.ticks += 1
        self._emit(at_s)

    def _emit(self, at_s: float) -> None:
        rows, self._rows = self._rows, []
        self.writer.put(rows)
        marks, self._marks = self.book.take_marks() + self._marks, []
        now_s = time.time()
        views = [state.view(now_s) for state in self.states.values()]
        frames = self.frames.build(at_s, views, self.book.inventory.pool_ids, marks)
        self.publisher.offer(frames, orjson.dumps(self.status(now_s)))

    async def _loop(self, fetcher: Fetcher, stopping: "asyncio.Future[Any]") -> None:
        interval_s = self.options.interval_s
        due_s = math.ceil(time.time() / interval_s) * interval_s
        while not stopping.done():
            await asyncio.wait((stopping,), timeout=max(0.0, due_s - time.time()))
            if stopping.done():
                return
            await self.tick(fetcher, due_s)
            late = (time.time() - due_s) / interval_s
            if abs(late) >= 1:  # the machine was busy or asleep, or its clock was set
                self.faults["ticks_skipped"] += max(int(late), 0)
                due_s = math.floor(time.time() / interval_s) * interval_s
            due_s += interval_s

    async def _scrape(self, fetcher: Fetcher, state: TargetState) -> None:
        at_s, started = time.time(), time.perf_counter()
        try:
            body = await fetcher.fetch(state.target)
            row, restarted = state.accept(body, at_s)
        except FetchError as error:
            state.fail(error.reason)
            return
        except Exception:
            logger.exception("scraping %s failed in a way nobody foresaw", state.target.name)
            state.fail("internal_error")
            return
        finally:
            state.duration_s = time.perf_counter() - started
        if row is not None:
            self._rows.append(row)
        if restarted:
            self._marks.append(_restart_mark(state.target, at_s))

    def _follow_inventory(self) -> None:
        """Keep the states of targets that are still wanted; one whose address or owner changed keeps its memory."""
        wanted = {target.key: target for target in self.book.inventory.targets}
        for key in self.states.keys() - wanted.keys():
            del self.states[key]
            if task := self._in_flight.pop(key, None):
                task.cancel()
        for key, target in wanted.items():
            if key in self.states:
                self.states[key].target = target
            else:
                self.states[key] = TargetState(target, self.options.max_series, self.options.windows)

    def status(self, now_s: float) -> dict[str, Any]:
        """Return what `/api/v1/telemetry/status/` shows: every counter, and each target's last word."""
        return {
            "at_s": round(now_s, 3),
            "epoch": self.frames.epoch,
            "interval_s": self.options.interval_s,
            "ticks": self.ticks,
            "faults": _plain(self.faults + self.book.faults + self.publisher.faults),
            "rows_written": self.writer.written_rows,
            "rows_waiting": self.writer.buffered_rows,
            "rows_dropped": self.writer.dropped_rows,
            "commits_failed": self.writer.failed_commits,
            "frames_published": self.publisher.published,
            "targets": [_target_status(state, now_s) for state in self.states.values()],
        }

    async def _end(self, lease: Lease) -> None:
        for task in self._in_flight.values():
            task.cancel()
        self.writer.put(self._rows)
        async with contextlib.AsyncExitStack() as stack:  # the last one first; none is left out when another fails
            stack.push_async_callback(lease.release)
            stack.push_async_callback(self.book.close)
            stack.push_async_callback(self.writer.close)


def _restart_mark(target: Target, at_s: float) -> Mark:
    return Mark(at_s, "restart", f"{target.name} restarted", target.page_url, target.pool_id, target.agent_id)


def _target_status(state: TargetState, now_s: float) -> dict[str, Any]:
    age_s = None if state.last_ok_s is None else max(0.0, now_s - state.last_ok_s)
    return {
        "key": state.target.key,
        "name": state.target.name,
        "kind": state.target.kind,
        "state": state.state(age_s),
        "up": not state.reason,
        "reason": state.reason,
        "age_s": None if age_s is None else round(age_s, 1),
        "duration_s": round(state.duration_s, 4),
        "series": state.series_count,
        "unknown_samples": state.unknown_samples,
        "faults": _plain(state.faults),
    }


def _plain(faults: Counter[str]) -> dict[str, int]:
    return {str(name): count for name, count in faults.items()}
