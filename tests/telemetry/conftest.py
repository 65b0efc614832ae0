"""Shared by all tests of telemetry."""

from collections.abc import Iterator

import pytest
import redis
from django.test import override_settings


@pytest.fixture(scope="session")
def our_redis(redis_url: str) -> Iterator[str]:
    """The test process's Redis, which the settings name as well, whenever they were read."""
    with override_settings(REDIS_URL=redis_url):
        yield redis_url


@pytest.fixture
def clean_redis(our_redis: str) -> str:
    """The test process's Redis, emptied."""
    with redis.Redis.from_url(our_redis) as client:
        client.flushall()
    return our_redis
