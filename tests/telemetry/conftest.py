"""Shared by all tests of telemetry."""

from collections.abc import Iterator

import pytest
import redis
from asgiref.sync import SyncToAsync
from django.db import connections
from django.test import override_settings


@pytest.fixture(autouse=True)
def _no_connection_left_behind() -> Iterator[None]:
    """Close what async tests opened in asgiref's thread: PostgreSQL cannot drop a database that somebody uses."""
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(10)


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
