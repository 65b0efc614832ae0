"""`/livez` and `/readyz`: open to probes (decision 0003), so they say one word and reason codes, never a name,
version or path.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

logger = logging.getLogger(__name__)

REDIS_TIMEOUT_S = 1.0
MIGRATED_KEPT_S = 30
_MIGRATED_KEY = "health.migrated"


def database_problem() -> str:
    """Return an empty text where the database answers, else a reason code."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except (DatabaseError, OSError) as error:
        logger.warning("health.database: %s", type(error).__name__)
        return "database-unreachable"
    return ""


def migrations_problem() -> str:
    """Return an empty text where every migration is applied, else a reason code. Good news is kept for seconds: reading
    the migrations is not free, and anybody may ask.
    """
    if cache.get(_MIGRATED_KEY):
        return ""
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except (DatabaseError, OSError):
        return "database-unreachable"
    if pending:
        return "migrations-pending"
    cache.set(_MIGRATED_KEY, True, MIGRATED_KEPT_S)
    return ""


def redis_problem() -> str:
    """Return an empty text where Redis answers, else a reason code."""
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
        ) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        logger.warning("health.redis: %s", type(error).__name__)
        return "redis-unreachable"
    return ""


NEEDED: Final[Mapping[str, Callable[[], str]]] = {"database": database_problem, "migrations": migrations_problem}
WANTED: Final[Mapping[str, Callable[[], str]]] = {"redis": redis_problem}
"""Without Redis pages and the API work on and live charts fall back to polling: not a reason to send people away."""


@login_not_required
@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    """Answer 200: this process serves requests."""
    return _answer(200, {"status": "ok"})


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 (`ok`, or `degraded` without Redis), or 503 where pages cannot be served; reason codes by check."""
    missing = {name: problem for name, check in NEEDED.items() if (problem := check())}
    degraded = {name: problem for name, check in WANTED.items() if (problem := check())}
    if missing:
        return _answer(503, {"status": "not-ready", "reasons": missing | degraded})
    if degraded:
        return _answer(200, {"status": "degraded", "reasons": degraded})
    return _answer(200, {"status": "ok"})


def _answer(status: int, body: Mapping[str, object]) -> JsonResponse:
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store"})
