"""Names in Redis, and clients that fail within a second instead of waiting: a browser is at the other end."""

import asyncio
from dataclasses import dataclass

import redis
import redis.asyncio
from django.conf import settings
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

FRAMES_CHANNEL = "fabric:frames"
CONTROL_CHANNEL = "fabric:control"
STATUS_KEY = "fabric:scraper:status"
LEASE_KEY = "fabric:scraper:lease"
RING_FRAMES = 300
"""Frames kept of each topic: five minutes at one a second."""
TIMEOUT_S = 1.0


def heed_cancellation() -> None:
    """Raise `CancelledError` if this task is being cancelled. Call it in loops around Redis.

    redis-py 8.1 now and then swallows a cancellation that arrives in the middle of a command (seen in the tests of the
    scraper: 1 of 12 ends); the loop would go on for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def ring_key(topic: str) -> str:
    """Return the stream that keeps a topic's last frames."""
    return f"fabric:ring:{topic}"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where Redis is, in the form that redis-py reads (`redis://`, `rediss://`, `unix://`)."""

    url: str

    @classmethod
    def from_settings(cls) -> "RedisAddress":
        """Return the configured one; Celery's spelling of a unix socket is understood too."""
        return cls(settings.REDIS_URL.replace("redis+socket://", "unix://", 1))

    def connect(self) -> "redis.asyncio.Redis":
        """Return an asyncio client that does not retry by itself; connecting happens at the first command."""
        client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(
            self.url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=AsyncRetry(NoBackoff(), 0),
        )
        return client

    def connect_blocking(self) -> "redis.Redis":
        """Return a client for ordinary code, with the same short temper."""
        client: redis.Redis = redis.Redis.from_url(
            self.url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
        return client
