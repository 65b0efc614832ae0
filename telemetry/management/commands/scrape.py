"""`manage.py scrape`: reads every target each second, stores what it reads and sends live frames."""

import asyncio
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from telemetry.live.redis import RedisAddress
from telemetry.scrape.book import TargetBook
from telemetry.scrape.fetch import FetchLimits
from telemetry.scrape.lease import LeaseLost
from telemetry.scrape.scraper import ScrapeOptions, Scraper
from telemetry.scrape.state import LiveWindows
from telemetry.series.store import TickLog
from telemetry.series.writer import SeriesWriter


class Command(BaseCommand):
    """Runs the scraper in this process."""

    help = "Scrape agents and registered targets, store the samples, send live frames. Ends on SIGTERM or SIGINT."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a signal."""
        try:
            asyncio.run(_run())
        except* LeaseLost as group:
            raise CommandError(str(group.exceptions[0]), returncode=75) from None


async def _run() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Scraper(options_from_settings(), TargetBook(), SeriesWriter(TickLog()), RedisAddress.from_settings()).run(
        stop
    )


def options_from_settings() -> ScrapeOptions:
    """Return interval and limits by the settings."""
    env = settings.ENV
    return ScrapeOptions(
        interval_s=env.scrape_interval_s,
        limits=FetchLimits(env.scrape_timeout_s, env.scrape_max_body_bytes),
        max_series=env.scrape_max_series,
        windows=LiveWindows.for_interval(env.scrape_interval_s, env.heartbeat_stale_after_s),
    )
