"""One scraper at a time: two would number the same topics' frames under two epochs. Held in Redis, and only there."""

import asyncio
import logging

from redis.exceptions import RedisError

from telemetry.live.redis import LEASE_KEY, RedisAddress, heed_cancellation

logger = logging.getLogger(__name__)

LEASE_S = 3.0
RENEW_EVERY_S = 1.0

_RENEW = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class LeaseLost(Exception):
    """Another scraper has taken over: this one must stop."""


class Lease:
    """The right to scrape. While Redis is away whoever scrapes goes on: data is worth more than numbering."""

    def __init__(self, address: RedisAddress, holder: str) -> None:
        self._client = address.connect()
        self._holder = holder

    async def acquire(self) -> None:
        """Wait until no other scraper holds the lease, or Redis cannot be asked."""
        told = False
        while not await self._try():
            heed_cancellation()
            if not told:
                logger.warning("another scraper is at work; waiting to take over when it ends")
                told = True
            await asyncio.sleep(RENEW_EVERY_S)

    async def keep(self) -> None:
        """Renew until cancelled. Raises `LeaseLost` when another scraper took over while this one was frozen."""
        while True:
            heed_cancellation()
            await asyncio.sleep(RENEW_EVERY_S)
            if not await self._try():
                raise LeaseLost("another scraper has taken over")

    async def release(self) -> None:
        """Let the next one in at once."""
        try:
            await self._client.eval(_RELEASE, 1, LEASE_KEY, self._holder)
        except (RedisError, OSError, TimeoutError):
            logger.info("the scraper's lease was not released; it ends by itself within %.0f s", LEASE_S)
        await self._client.aclose()

    async def _try(self) -> bool:
        try:
            return bool(await self._client.eval(_RENEW, 1, LEASE_KEY, self._holder, str(int(LEASE_S * 1000))))
        except (RedisError, OSError, TimeoutError):
            return True
