"""Browsers of people with each role, and a filled fabric."""

import time
from collections.abc import Callable, Iterator

import pytest
from django.core.cache import cache
from django.test import Client

from fabric.core import ratelimit
from fabric.core.actor import Role
from tests.fabric.people import person
from tests.ui.world import World, make_world

ClientOf = Callable[[Role], Client]


@pytest.fixture(autouse=True)
def _fresh_rate_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counters of attempts are the process's: no test sees another's, and all attempts fall into one window."""
    started_s = time.time()
    monkeypatch.setattr(ratelimit, "now_s", lambda: started_s)
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def world(db: None) -> World:
    """One of everything."""
    return make_world()


@pytest.fixture
def client_of(db: None) -> ClientOf:
    """Return a signed-in browser of a new person with the given role."""

    def make(role: Role) -> Client:
        client = Client()
        client.force_login(person(role))
        return client

    return make


@pytest.fixture
def admin(client_of: ClientOf) -> Client:
    """An admin's browser."""
    return client_of(Role.ADMIN)


@pytest.fixture
def operator(client_of: ClientOf) -> Client:
    """An operator's browser."""
    return client_of(Role.OPERATOR)


@pytest.fixture
def viewer(client_of: ClientOf) -> Client:
    """A viewer's browser."""
    return client_of(Role.VIEWER)
