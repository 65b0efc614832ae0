"""The audit trail's writer."""

import uuid
from datetime import UTC, datetime

import pytest
from django.db import transaction

from fabric.audit.models import AuditEntry
from fabric.audit.services import Act, record, record_many
from fabric.core.actor import SYSTEM, Actor
from fabric.pools.models import Pool


@pytest.fixture
def pool(db: None) -> Pool:
    """Return a pool."""
    return Pool.objects.create(name="warm")


def test_row_says_who_did_what_to_which_object_and_why(pool: Pool, operator: Actor) -> None:
    record(actor=operator, verb="update", obj=pool, before={"name": "cold"}, after={"name": "warm"}, reason="renamed")
    row = AuditEntry.objects.get(verb="update")
    assert (row.actor_kind, row.actor_id, row.actor_name) == ("user", operator.id, operator.name)
    assert (row.object_type, row.object_id, row.object_label) == ("pools.pool", str(pool.pk), "warm")
    assert (row.before, row.after, row.reason) == ({"name": "cold"}, {"name": "warm"}, "renamed")


def test_values_become_plain_json(pool: Pool) -> None:
    moment, key = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), uuid.uuid4()
    record(actor=SYSTEM, verb="v", obj=pool, before={}, after={"at": moment, "id": key, "n": None})
    row = AuditEntry.objects.get(verb="v")
    assert row.after == {"at": "2026-01-02T03:04:05Z", "id": str(key), "n": None}


@pytest.mark.parametrize("name", ["password", "secret", "token", "private_key", "access_token"])
def test_secret_by_name_is_a_programming_error(pool: Pool, name: str) -> None:
    with pytest.raises(ValueError, match="secrets do not go"):
        record(actor=SYSTEM, verb="v", obj=pool, before={}, after={name: "x"})
    assert not AuditEntry.objects.filter(verb="v").exists()


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_nothing_is_written() -> None:
    pool = Pool.objects.create(name="warm")
    with pytest.raises(transaction.TransactionManagementError):
        record(actor=SYSTEM, verb="v", obj=pool, before={}, after={})
    assert not AuditEntry.objects.exists()


def test_many_acts_of_one_verb_are_one_statement(pool: Pool, django_assert_num_queries) -> None:
    with django_assert_num_queries(1):
        record_many(actor=SYSTEM, verb="v", acts=[Act(pool, {}, {"n": n}) for n in range(50)])
    assert AuditEntry.objects.filter(verb="v").count() == 50


def test_label_longer_than_its_column_is_cut(operator: Actor) -> None:
    long = Actor(operator.kind, operator.id, "n" * 400, operator.role)
    record(actor=long, verb="v", obj=Pool(name="p" * 400), before={}, after={})
    row = AuditEntry.objects.get(verb="v")
    assert (len(row.actor_name), len(row.object_label)) == (255, 255)
