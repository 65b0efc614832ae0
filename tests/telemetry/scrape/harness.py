"""Runs a real scraper inside a test: real Redis, real database, real targets; only what to scrape is handed to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID

import orjson

from telemetry.live.redis import STATUS_KEY, RedisAddress, ring_key
from telemetry.scrape.book import TargetBook
from telemetry.scrape.fetch import FetchLimits
from telemetry.scrape.scraper import ScrapeOptions, Scraper
from telemetry.scrape.state import LiveWindows
from telemetry.series.store import TickLog
from telemetry.series.writer import SeriesWriter
from telemetry.targets import Inventory, Target


def options(interval_s: float = 0.1, **changes: Any) -> ScrapeOptions:
    values: dict[str, Any] = {
        "interval_s": interval_s,
        "limits": FetchLimits(0.09, 1 << 20),
        "max_series": 500,
        "windows": LiveWindows(rate_s=1.0, percentile_s=2.0, live_s=0.5, unreachable_s=1.5),
    }
    return ScrapeOptions(**(values | changes))


@contextlib.asynccontextmanager
async def running_scraper(
    redis_url: str,
    targets: Sequence[Target] | Callable[[], Sequence[Target]],
    *,
    pool_ids: Sequence[UUID] = (),
    **changes: Any,
) -> AsyncIterator[Scraper]:
    """Run until the block ends; a scraper that fails meanwhile fails the test."""
    load = targets if callable(targets) else lambda: targets
    book = TargetBook(lambda: Inventory(tuple(load()), tuple(pool_ids)))
    scraper = Scraper(options(**changes), book, SeriesWriter(TickLog()), RedisAddress(redis_url))
    stop = asyncio.Event()
    task = asyncio.create_task(scraper.run(stop))
    try:
        yield scraper
    finally:
        stop.set()
        await task


async def ring(redis_url: str, topic: str = "overview") -> list[dict[str, Any]]:
    """Return the frames that a topic's ring holds."""
    async with RedisAddress(redis_url).connect() as client:
        return [orjson.loads(fields[b"frame"]) for _, fields in await client.xrange(ring_key(topic))]


async def status(redis_url: str) -> dict[str, Any]:
    """Return the scraper's last report."""
    async with RedisAddress(redis_url).connect() as client:
        stored = await client.get(STATUS_KEY)
    return dict(orjson.loads(stored)) if stored else {}
