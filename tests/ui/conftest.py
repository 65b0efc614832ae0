"""Browsers of people with each role, and a filled fabric."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client

from fabric.core import ratelimit
from fabric.core.actor import Role
from tests.e2e.conftest import chromium_path
from tests.fabric.people import person
from tests.ui.live_server import Captured, LiveServer
from tests.ui.stage import Stage, Theatre
from tests.ui.world import World, make_world

ClientOf = Callable[[Role], Client]


@pytest.fixture(scope="session", autouse=True)
def _beside_a_foreign_loop() -> Iterator[None]:
    """Another package's browser may have left an event loop in this thread, which Django would take for ours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


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


@pytest.fixture(scope="session")
def theatre() -> Iterator[Theatre]:
    """A headless Chromium of Debian's."""
    path = chromium_path()
    if not path:
        if os.environ.get("FABRIC_REQUIRE_BROWSER") == "1":
            pytest.fail("FABRIC_REQUIRE_BROWSER=1 but there is no chromium (apt-get install chromium)")
        pytest.skip("no chromium on this machine: apt-get install chromium, or name one in CHROMIUM")
    theatre = Theatre(path)
    yield theatre
    theatre.close()


@pytest.fixture(scope="module")
def captured(django_db_setup: None, django_db_blocker: Any) -> dict[str, Captured]:
    """Pages of a filled fabric as an admin gets them, by path; `dialog:<path>` as the inside of a dialog."""
    with django_db_blocker.unblock(), transaction.atomic():
        world = make_world()
        client = Client()
        client.force_login(person(Role.ADMIN))
        switch = world.switch.get_absolute_url()
        paths = ["/", "/pools/", "/agents/", "/audit/", "/agents/join/", "/account/", switch, f"{switch}delete/"]
        paths += [world.policy.get_absolute_url(), f"{world.policy.get_absolute_url()}edit/"]
        paths += [world.revision.get_absolute_url(), world.rollout.get_absolute_url()]
        pages = {path: _captured(client.get(path)) for path in paths}
        pages[f"dialog:{switch}delete/"] = _captured(client.get(f"{switch}delete/", headers={"X-Fragment": "dialog"}))
        transaction.set_rollback(True)
    return pages


def _captured(response: Any) -> Captured:
    kept = {name: response[name] for name in ("Content-Security-Policy",) if name in response}
    return Captured(response.content.decode(), kept)


@pytest.fixture
def stage(theatre: Theatre, captured: dict[str, Captured]) -> Iterator[Stage]:
    """A page and its server for one test. What the page complains about fails the test."""
    server = LiveServer(captured)
    server.start()
    stage = Stage(theatre, server)
    try:
        yield stage
    finally:
        theatre.run(stage.close)
        server.stop()
