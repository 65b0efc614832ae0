"""A web server, signed-in people, and a feed of frames."""

from collections.abc import AsyncIterator, Iterator

import pytest
from django.conf import settings
from django.db import connections
from django.test import Client

from fabric.accounts.models import User
from tests.telemetry.live.harness import Feed, running_web


@pytest.fixture(scope="session")
def web(django_db_setup: None, our_redis: str) -> Iterator[str]:
    """host:port of a uvicorn that serves the whole application."""
    # The server's threads must not keep connections: PostgreSQL could not drop the test database afterwards.
    connections.settings["default"]["CONN_MAX_AGE"] = 0
    with running_web() as address:
        yield address


@pytest.fixture
def user(transactional_db: None) -> User:
    return User.objects.create_user(username="vera", role="viewer")  # no password: hashing one takes half a second


@pytest.fixture
def cookie(user: User) -> str:
    """The session cookie of a signed-in viewer."""
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
async def feed(clean_redis: str) -> AsyncIterator[Feed]:
    made = Feed(clean_redis)
    yield made
    await made.close()
