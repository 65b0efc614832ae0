"""What tests of the control plane share: people with each role, and clients that act for them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from fabric.accounts.models import User
from fabric.core import ratelimit
from fabric.core.actor import Actor, Role
from tests.fabric.people import bearer_client, person

ClientFor = Callable[[Role], APIClient]


@pytest.fixture(autouse=True)
def _fresh_rate_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counters of attempts and kept grants are the process's: no test sees another's. All attempts fall into one
    window.
    """
    started_s = time.time()
    monkeypatch.setattr(ratelimit, "now_s", lambda: started_s)
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def admin(db: None) -> Actor:
    """Return an admin."""
    return person(Role.ADMIN).as_actor()


@pytest.fixture
def operator(db: None) -> Actor:
    """Return an operator."""
    return person(Role.OPERATOR).as_actor()


@pytest.fixture
def viewer(db: None) -> Actor:
    """Return a viewer."""
    return person(Role.VIEWER).as_actor()


@pytest.fixture
def client_for(db: None) -> ClientFor:
    """Return a client with an API token of the given role."""
    return lambda role: bearer_client(person(role))


@pytest.fixture
def api(client_for: ClientFor) -> APIClient:
    """Return an operator's client."""
    return client_for(Role.OPERATOR)


@pytest.fixture
def signed_in(db: None) -> Callable[[User], APIClient]:
    """Return a client with a session, whose writes are checked for CSRF as a browser's are."""

    def sign_in(user: User) -> APIClient:
        client = APIClient(enforce_csrf_checks=True)
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def redis_at_hand(settings: Any, redis_url: str) -> str:
    """Point the control plane at this test process's own Redis; return its URL."""
    settings.REDIS_URL = redis_url
    return redis_url
