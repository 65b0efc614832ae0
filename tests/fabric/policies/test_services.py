"""Writing policies and revisions."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor, ActorKind, Role
from fabric.core.errors import Blocked, Conflict, FabricError, Invalid, NotAllowed, NotFound, StaleVersion
from fabric.policies import selectors, services
from fabric.policies.models import Policy, PoolPolicy, Revision
from fabric.pools.models import Pool
from kvcache.policy import default_policy

pytestmark = pytest.mark.django_db
OPERATOR = Actor(ActorKind.USER, "", "olga", Role.OPERATOR)
VIEWER = Actor(ActorKind.USER, "", "vera", Role.VIEWER)
DOCUMENT = {"version": "fabric/v1", "tiers": {"dram": {"capacity": {"share": 0.5}}}}
YAML = "version: fabric/v1\ntiers:\n  dram:\n    capacity: {share: 0.5}\n"


@pytest.fixture
def policy() -> Policy:
    return services.create_policy(actor=OPERATOR, name="chat", description="for chat models")


def write(policy: Policy, **arguments: Any) -> Revision:
    return services.write_revision(actor=OPERATOR, policy_id=policy.pk, **{"document": DOCUMENT, **arguments})


def test_revisions_count_from_one_and_keep_the_whole_document(policy: Policy) -> None:
    first = write(policy, note=" half the DRAM ")
    second = write(policy, document={"version": "fabric/v1"})
    assert (first.number, second.number) == (1, 2)
    assert first.document["tiers"]["dram"]["eviction"] == "lru"  # every default written out
    assert first.note == "half the DRAM"
    assert first.created_by == "olga"
    assert second.digest == default_policy().digest()
    policy.refresh_from_db()
    assert policy.version == 3
    entries = AuditEntry.objects.filter(verb="write_revision").order_by("at")
    assert [entry.after["number"] for entry in entries] == [1, 2]
    assert entries[0].reason == "half the DRAM"


@pytest.mark.parametrize("text", [YAML, '{"version": "fabric/v1", "tiers": {"dram": {"capacity": {"share": 0.5}}}}'])
def test_revision_from_text_equals_that_of_the_object(policy: Policy, text: str) -> None:
    revision = write(policy, document=None, text=text)
    assert revision.digest == services.parsed_document(document=DOCUMENT).digest()


def test_unchanged_document_conflicts_and_names_the_revision(policy: Policy) -> None:
    write(policy)
    with pytest.raises(Conflict, match="chat r1"):
        write(policy, document=None, text=YAML + "# only a comment\n")
    assert Revision.objects.count() == 1


def test_an_old_document_may_be_written_again_as_a_new_revision(policy: Policy) -> None:
    first = write(policy)
    write(policy, document={"version": "fabric/v1"})
    third = write(policy)
    assert (third.number, third.digest) == (3, first.digest)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "version"),
        ({"version": "fabric/v9"}, "version"),
        ({"version": "fabric/v1", "tiers": {"dram": {"capacity": {"share": 2}}}}, "tiers.dram.capacity.share"),
        ({"version": "fabric/v1", "tiers": {"hbm": {}}}, "tiers.hbm"),
    ],
)
def test_bad_document_names_its_fields(policy: Policy, document: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as error:
        write(policy, document=document)
    assert field in [problem.field for problem in error.value.problems]
    assert not Revision.objects.exists()


def test_text_that_is_no_document_says_where(policy: Policy) -> None:
    with pytest.raises(Invalid) as error:
        write(policy, document=None, text="version: [unclosed")
    assert error.value.problems[0].field == "document"
    assert "line" in error.value.problems[0].problem


@pytest.mark.parametrize("given", [{"document": None}, {"text": YAML}])
def test_exactly_one_of_document_and_text(policy: Policy, given: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="one document"):
        write(policy, **given)


def test_revision_on_an_old_version_is_stale(policy: Policy) -> None:
    write(policy, expected_version=1)
    with pytest.raises(StaleVersion):
        write(policy, document={"version": "fabric/v1"}, expected_version=1)
    assert Revision.objects.count() == 1


def test_note_too_long_is_invalid(policy: Policy) -> None:
    with pytest.raises(Invalid):
        write(policy, note="x" * 2001)


def test_names_are_unique_and_checked(policy: Policy) -> None:
    with pytest.raises(Conflict, match="chat"):
        services.create_policy(actor=OPERATOR, name=" chat ")
    for name in ("", " ", "a\nb", "x" * 101):
        with pytest.raises(Invalid):
            services.create_policy(actor=OPERATOR, name=name)
    assert Policy.objects.count() == 1


def test_update_changes_what_is_given(policy: Policy) -> None:
    after = services.update_policy(actor=OPERATOR, policy_id=policy.pk, name="agents", expected_version=1)
    assert (after.name, after.description, after.version) == ("agents", "for chat models", 2)
    entry = AuditEntry.objects.get(verb="update")
    assert (entry.before["name"], entry.after["name"]) == ("chat", "agents")
    unchanged = services.update_policy(actor=OPERATOR, policy_id=policy.pk, name="agents")
    assert unchanged.version == 2
    other = services.create_policy(actor=OPERATOR, name="other")
    with pytest.raises(Conflict):
        services.update_policy(actor=OPERATOR, policy_id=other.pk, name="agents")
    with pytest.raises(StaleVersion):
        services.update_policy(actor=OPERATOR, policy_id=policy.pk, name="x", expected_version=1)


def test_assign_is_audited_and_idempotent(policy: Policy) -> None:
    pool = Pool.objects.create(name="pool-a")
    row = services.assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=policy.pk, reason="first")
    services.assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=policy.pk)
    other = services.create_policy(actor=OPERATOR, name="other")
    row = services.assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=other.pk)
    assert row.policy == other
    entries = AuditEntry.objects.filter(verb="assign_policy").order_by("at")
    assert [(e.before, e.after) for e in entries] == [
        ({}, {"policy": "chat"}),
        ({"policy": "chat"}, {"policy": "other"}),
    ]


def test_assign_keeps_the_revision_that_is_out(policy: Policy) -> None:
    pool = Pool.objects.create(name="pool-a")
    revision = write(policy)
    services.assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=policy.pk)
    services.set_current_revision(actor=OPERATOR, pool_id=pool.pk, revision_id=revision.pk)
    other = services.create_policy(actor=OPERATOR, name="other")
    row = services.assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=other.pk)
    assert row.current_revision == revision


def test_delete_removes_an_unused_policy_with_its_revisions(policy: Policy) -> None:
    write(policy)
    services.delete_policy(actor=OPERATOR, policy_id=policy.pk)
    assert not Policy.objects.exists()
    assert AuditEntry.objects.get(verb="delete").before == {"name": "chat"}


def test_delete_of_a_policy_in_use_is_blocked_and_names_the_pool(policy: Policy) -> None:
    pool = Pool.objects.create(name="pool-a")
    services.assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=policy.pk)
    with pytest.raises(Blocked) as error:
        services.delete_policy(actor=OPERATOR, policy_id=policy.pk)
    assert "pool-a" in error.value.problems[0].problem


def test_viewers_change_nothing(policy: Policy) -> None:
    pool = Pool.objects.create(name="pool-a")
    calls: list[Any] = [
        lambda: services.create_policy(actor=VIEWER, name="x"),
        lambda: services.update_policy(actor=VIEWER, policy_id=policy.pk, name="x"),
        lambda: services.delete_policy(actor=VIEWER, policy_id=policy.pk),
        lambda: services.write_revision(actor=VIEWER, policy_id=policy.pk, document=DOCUMENT),
        lambda: services.assign_policy(actor=VIEWER, pool_id=pool.pk, policy_id=policy.pk),
    ]
    for call in calls:
        with pytest.raises(NotAllowed):
            call()
    assert (Policy.objects.count(), Revision.objects.count(), PoolPolicy.objects.count()) == (1, 0, 0)


def test_unknown_ids_are_not_found(policy: Policy) -> None:
    nobody = uuid.uuid4()
    pool = Pool.objects.create(name="pool-a")
    calls: list[Any] = [
        lambda: services.update_policy(actor=OPERATOR, policy_id=nobody, name="x"),
        lambda: services.delete_policy(actor=OPERATOR, policy_id=nobody),
        lambda: services.write_revision(actor=OPERATOR, policy_id=nobody, document=DOCUMENT),
        lambda: services.assign_policy(actor=OPERATOR, pool_id=nobody, policy_id=policy.pk),
        lambda: services.assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=nobody),
        lambda: selectors.policy_detail(OPERATOR, nobody),
        lambda: selectors.revision_detail(OPERATOR, policy.pk, 1),
        lambda: selectors.validation_for_pool(OPERATOR, default_policy(), nobody),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            call()


@pytest.mark.django_db(transaction=True)
def test_parallel_writers_of_one_version_leave_one_revision(policy: Policy) -> None:
    """On PostgreSQL; the in-memory SQLite of this run cannot be shared by threads (see the rollouts' concurrency
    tests).
    """
    if connection.vendor == "sqlite":
        pytest.skip("needs PostgreSQL (DATABASE_URL)")

    def run(share: float) -> Any:
        try:
            document = {"version": "fabric/v1", "tiers": {"dram": {"capacity": {"share": share}}}}
            return write(policy, document=document, expected_version=1)
        except FabricError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(run, [0.1, 0.2, 0.3, 0.4, 0.6, 0.7]))
    assert sum(isinstance(result, Revision) for result in results) == 1
    assert sum(isinstance(result, StaleVersion) for result in results) == 5
