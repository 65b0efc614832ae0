"""The audit trail through its door."""

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from fabric.audit.models import AuditEntry
from fabric.core.actor import Role
from fabric.pools.services import create_pool, update_pool

pytestmark = pytest.mark.django_db
PATH = "/api/v1/audit/"


@pytest.fixture
def history(operator) -> None:
    """Two pools, one renamed."""
    pool = create_pool(actor=operator, name="one")
    create_pool(actor=operator, name="two")
    update_pool(actor=operator, pool_id=pool.pk, name="uno")


def names(api: APIClient, **query: str) -> list[tuple[str, str]]:
    return [
        (r["verb"], r["object_label"]) for r in api.get(PATH, {"object_type": "pools.pool", **query}).json()["results"]
    ]


def test_newest_act_stands_first(api: APIClient, history: None) -> None:
    assert names(api) == [("update", "uno"), ("create", "two"), ("create", "one")]


def test_filters_narrow_by_verb_object_actor_and_time(api: APIClient, history: None, operator) -> None:
    row = AuditEntry.objects.get(verb="update")
    assert names(api, verb="update") == [("update", "uno")]
    assert names(api, object_id=row.object_id) == [("update", "uno"), ("create", "one")]
    assert names(api, object_label="TW") == [("create", "two")]
    assert len(names(api, actor_id=operator.id)) == 3
    assert names(api, actor_name="nobody") == []
    later = (timezone.now() + timedelta(hours=1)).isoformat()
    assert names(api, after=later) == []
    assert len(names(api, before=later)) == 3
    assert names(api, ordering="at")[0] == ("create", "one")


@pytest.mark.parametrize("query", ["after=yesterday", "ordering=before", "actor=x", "verb=" + "x" * 65])
def test_filter_that_makes_no_sense_is_400(api: APIClient, query: str) -> None:
    assert api.get(f"{PATH}?{query}").status_code == 400


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nobody_writes_the_trail(client_for, history: None, method: str) -> None:
    client = client_for(Role.ADMIN)
    row, count = AuditEntry.objects.first(), AuditEntry.objects.count()
    assert getattr(client, method)(PATH, {}, format="json").status_code == 405
    assert getattr(client, method)(f"{PATH}{row.pk}/", {}, format="json").status_code == 405
    assert AuditEntry.objects.count() == count
