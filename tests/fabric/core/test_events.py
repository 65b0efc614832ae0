"""Control events reach Redis after the commit, and a dead Redis costs nobody anything."""

import json

import pytest
import redis
from django.db import transaction

from fabric.core.events import CONTROL_CHANNEL, publish_control

pytestmark = pytest.mark.django_db(transaction=True)


def test_event_is_published_after_the_commit_and_not_after_a_rollback(redis_at_hand: str) -> None:
    with redis.Redis.from_url(redis_at_hand) as client, client.pubsub() as listener:
        listener.subscribe(CONTROL_CHANNEL)
        assert listener.get_message(timeout=2)["type"] == "subscribe"
        with transaction.atomic():
            publish_control("user.changed", user_id="rolled back")
            transaction.set_rollback(True)
        with transaction.atomic():
            publish_control("user.changed", user_id="committed")
            assert listener.get_message(timeout=0.1) is None
        message = json.loads(listener.get_message(timeout=2)["data"])
        assert message["type"] == "user.changed"
        assert message["user_id"] == "committed"
        assert message["at_s"] > 0
        assert listener.get_message(timeout=0.1) is None


def test_dead_redis_is_only_logged(settings, caplog: pytest.LogCaptureFixture) -> None:
    settings.REDIS_URL = "unix:///nonexistent/redis.sock"
    with transaction.atomic():
        publish_control("user.changed", user_id="1")
    assert "control.event.lost" in caplog.text
