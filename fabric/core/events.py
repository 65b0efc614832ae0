"""Control events on the Redis channel `fabric:control`: what open live streams must know at once. Best effort by
design.

A lost event costs time and no safety: whoever holds a stream open asks the database again at short intervals.
"""

import json
import logging
import time
from functools import partial

import redis
from django.conf import settings
from django.db import transaction

logger = logging.getLogger(__name__)

CONTROL_CHANNEL = "fabric:control"
TIMEOUT_S = 1.0


def publish_control(kind: str, **ids: str) -> None:
    """Publish `{"type": kind, "at_s": …, **ids}` once the current transaction is committed; a dead Redis is only
    logged.
    """
    transaction.on_commit(partial(_publish, kind, ids), robust=True)


def _publish(kind: str, ids: dict[str, str]) -> None:
    message = json.dumps({"type": kind, "at_s": time.time(), **ids})
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
        ) as client:
            client.publish(CONTROL_CHANNEL, message)
    except (redis.RedisError, OSError) as error:
        logger.warning("control.event.lost type=%s: %s", kind, type(error).__name__)
