"""Telling a worker that there is something to do. A lost nudge loses nothing: the sweeper and the agents' heartbeats
find the same rows.
"""

import logging
from collections.abc import Iterable
from uuid import UUID

from django.conf import settings
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import RedisError

from fabric.celery import app

logger = logging.getLogger(__name__)

PUSH_TASK = "fabric.rollouts.tasks.push_target"
BROKER_TIMEOUT_S = 1.0
"""How long a request may wait for a dead broker before it goes on without a nudge."""
NUDGE_EXPIRES_S = 30
"""A nudge that no worker took by then is dropped; the sweeper sends another."""


def nudge_targets(target_ids: Iterable[UUID]) -> int:
    """Ask workers to push these targets, over one connection; return how many messages the broker took (fewer: it is
    down).
    """
    sent = 0
    transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS | {
        "socket_timeout": BROKER_TIMEOUT_S,
        "socket_connect_timeout": BROKER_TIMEOUT_S,
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
    }
    try:
        with app.connection_for_write(
            connect_timeout=BROKER_TIMEOUT_S, transport_options=transport_options
        ) as connection:
            for target_id in target_ids:
                app.send_task(
                    PUSH_TASK, args=[str(target_id)], connection=connection, retry=False, expires=NUDGE_EXPIRES_S
                )
                sent += 1
    except (OperationalError, KombuError, RedisError, OSError) as error:
        logger.warning("no nudge: the broker does not answer (%s); the sweeper will find the work", error)
    return sent
