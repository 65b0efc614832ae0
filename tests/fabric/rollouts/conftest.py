"""A fleet of real agent runtimes behind the push."""

from pathlib import Path
from typing import Any

import pytest

from fabric.celery import app
from fabric.core.failpoints import set_failpoints
from fabric.rollouts.services import pushing
from tests.fabric.rollouts.fleet import Fleet


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Agents whose runtimes are real; `fleet.push` takes the place of HTTP."""
    fleet = Fleet(tmp_path)
    monkeypatch.setattr(pushing, "push_desired", fleet.push)
    return fleet


@pytest.fixture(autouse=True)
def _no_failpoints() -> Any:
    yield
    set_failpoints("")


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Point Celery at another broker for one test: `broker(url)`."""

    def use(url: str) -> None:
        monkeypatch.setitem(app.conf, "broker_url", url.replace("unix://", "redis+socket://"))
        monkeypatch.setitem(app.conf, "broker_write_url", url.replace("unix://", "redis+socket://"))

    return use


@pytest.fixture(autouse=True)
def _no_broker(broker: Any) -> None:
    """Nobody's queue gets messages from here unless a test names one."""
    broker("unix:///nonexistent/redis.sock")


@pytest.fixture
def tune(settings: Any) -> Any:
    """Change settings that come from the environment: `tune(rollout_max_attempts=3)`."""

    def change(**values: Any) -> None:
        settings.ENV = settings.ENV.model_copy(update=values)

    return change
