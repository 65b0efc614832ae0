"""Probes: open, terse, and honest about what is missing."""

import pytest
from django.db import DatabaseError
from django.test import Client

from fabric.core import health

pytestmark = pytest.mark.django_db


def test_livez_answers_strangers_in_one_word(client: Client) -> None:
    response = client.get("/livez")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert response["Cache-Control"] == "no-store"


def test_readyz_is_ok_where_database_migrations_and_redis_are(client: Client, redis_at_hand: str) -> None:
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_readyz_without_redis_is_degraded_and_still_200(client: Client, settings) -> None:
    settings.REDIS_URL = "unix:///nonexistent/secret-name.sock"
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "degraded", "reasons": {"redis": "redis-unreachable"}}
    assert b"secret-name" not in response.content


def test_readyz_without_database_is_503_with_a_code(
    client: Client, monkeypatch: pytest.MonkeyPatch, redis_at_hand: str
) -> None:
    def broken() -> None:
        raise DatabaseError("password=hunter2 host=db.internal")

    monkeypatch.setattr(health.connection, "cursor", broken)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["reasons"]["database"] == "database-unreachable"
    assert b"hunter2" not in response.content


def test_readyz_with_pending_migrations_is_503(
    client: Client, monkeypatch: pytest.MonkeyPatch, redis_at_hand: str
) -> None:
    monkeypatch.setattr(health.MigrationExecutor, "migration_plan", lambda self, targets: [("one", False)])
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["reasons"] == {"migrations": "migrations-pending"}


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_probes_take_nothing_but_safe_methods(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405
