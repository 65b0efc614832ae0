"""Nudges: taken by a real Redis, and never in anybody's way when the broker is dead, hung or full of nonsense."""

import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from fabric.rollouts import services
from fabric.rollouts.nudge import nudge_targets
from tests.fabric.rollouts.fleet import OPERATOR, Fleet, revision


@pytest.fixture
def hung_port() -> Iterator[int]:
    """A port where connections are taken and never answered."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        yield listener.getsockname()[1]


def test_nudges_reach_the_queue_over_one_connection(redis_url: str, broker: Any) -> None:
    broker(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        client.delete("celery")
        assert nudge_targets([uuid.uuid4() for _ in range(50)]) == 50
        assert client.llen("celery") == 50
        client.delete("celery")


@pytest.mark.parametrize("url", ["unix:///nonexistent/redis.sock", "redis://127.0.0.1:1/0"])
def test_nudge_with_a_dead_broker_returns_at_once(broker: Any, url: str) -> None:
    broker(url)
    started = time.monotonic()
    assert nudge_targets([uuid.uuid4() for _ in range(50)]) == 0
    assert time.monotonic() - started < 1.5


def test_nudge_with_a_hung_broker_gives_up_after_a_second(broker: Any, hung_port: int) -> None:
    broker(f"redis://127.0.0.1:{hung_port}/0")
    started = time.monotonic()
    assert nudge_targets([uuid.uuid4() for _ in range(50)]) == 0
    assert time.monotonic() - started < 2.5


def test_nudge_to_something_that_is_no_redis_is_ignored(broker: Any) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        broker(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        assert nudge_targets([uuid.uuid4()]) == 0
        thread.join(2)


@pytest.mark.django_db
def test_rollout_starts_with_a_dead_broker(fleet: Fleet, broker: Any, django_capture_on_commit_callbacks: Any) -> None:
    broker("unix:///nonexistent/redis.sock")
    started = time.monotonic()
    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        rollout = services.start_rollout(actor=OPERATOR, pool_id=fleet.pool().pk, revision_id=revision(0.5).pk)
    assert len(callbacks) == 1
    assert time.monotonic() - started < 2
    assert services.sweep_rollouts().pushed == 2
    rollout.refresh_from_db()
    assert rollout.state == "succeeded"


@pytest.mark.django_db
def test_rollout_nudges_its_targets_after_the_commit(
    fleet: Fleet, broker: Any, redis_url: str, django_capture_on_commit_callbacks: Any
) -> None:
    broker(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        client.delete("celery")
        with django_capture_on_commit_callbacks() as callbacks:
            services.start_rollout(actor=OPERATOR, pool_id=fleet.pool(agents=3).pk, revision_id=revision(0.5).pk)
        assert client.llen("celery") == 0
        for callback in callbacks:
            callback()
        assert client.llen("celery") == 3
        client.delete("celery")
