"""Shared by all tests of telemetry."""

import pytest
import redis


@pytest.fixture
def clean_redis(redis_url: str) -> str:
    """The test process's Redis, emptied."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
    return redis_url
