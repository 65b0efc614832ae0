"""Pools: services, sums, and the door."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.test import APIClient

from fabric.agents.models import Agent
from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor, Role
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound, StaleVersion
from fabric.inventory.models import Pod, Site
from fabric.pools import services
from fabric.pools.domain import sum_tiers
from fabric.pools.models import Pool
from fabric.pools.selectors import pool_summaries, pool_summary

PATH = "/api/v1/pools/"


def tier(name: str, stored: int, capacity: int = 100, limit: int = 200) -> dict[str, Any]:
    """Return a tier report."""
    return {
        "tier": name,
        "stored_bytes": stored,
        "stored_blocks": 1,
        "capacity_bytes": capacity,
        "limit_bytes": limit,
    }


def member(pool: Pool, name: str, state: str = "active", *tiers: dict[str, Any]) -> Agent:
    """Return an agent in the pool that reported these tiers."""
    return Agent.objects.create(
        pool=pool,
        name=name,
        hostname=name,
        agent_version="1",
        public_key=name,
        manage_url="x",
        data_url="x",
        state=state,
        status={"tiers": list(tiers)} if tiers else {},
    )


@pytest.fixture
def pod(db: None) -> Pod:
    """Return a pod."""
    return Pod.objects.create(site=Site.objects.create(name="here", slug="here"), name="pod-1")


@pytest.mark.django_db
def test_pool_is_made_changed_and_removed_with_audit_rows(operator: Actor, pod: Pod) -> None:
    pool = services.create_pool(actor=operator, name="  warm ", pod_id=pod.pk, description="d")
    services.update_pool(actor=operator, pool_id=pool.pk, name="hot", expected_version=1)
    services.update_pool(actor=operator, pool_id=pool.pk, pod_id=None, expected_version=2)
    services.delete_pool(actor=operator, pool_id=pool.pk, expected_version=3, reason="empty")
    rows = AuditEntry.objects.filter(object_id=str(pool.pk)).order_by("at")
    assert [(row.verb, row.before, row.after) for row in rows] == [
        ("create", {}, {"name": "warm", "pod_id": str(pod.pk), "description": "d"}),
        ("update", {"name": "warm"}, {"name": "hot"}),
        ("update", {"pod_id": str(pod.pk)}, {"pod_id": None}),
        ("delete", {"name": "hot", "pod_id": None, "description": "d"}, {}),
    ]
    assert rows[3].reason == "empty"


@pytest.mark.django_db
def test_bad_facts_are_refused_field_by_field(operator: Actor) -> None:
    with pytest.raises(Invalid) as refused:
        services.create_pool(actor=operator, name="", pod_id=uuid.uuid4(), description="x" * 2001)
    assert [problem.field for problem in refused.value.problems] == ["name", "description", "pod"]
    assert not Pool.objects.exists()


@pytest.mark.django_db
def test_name_is_taken_once(operator: Actor) -> None:
    services.create_pool(actor=operator, name="one")
    other = services.create_pool(actor=operator, name="two")
    with pytest.raises(Conflict):
        services.create_pool(actor=operator, name="one")
    with pytest.raises(Conflict):
        services.update_pool(actor=operator, pool_id=other.pk, name="one")
    other.refresh_from_db()
    assert (other.name, other.version) == ("two", 1)


@pytest.mark.django_db
def test_stale_or_unknown_pool_is_left_alone(operator: Actor) -> None:
    pool = services.create_pool(actor=operator, name="one")
    with pytest.raises(StaleVersion):
        services.update_pool(actor=operator, pool_id=pool.pk, name="two", expected_version=9)
    with pytest.raises(StaleVersion):
        services.delete_pool(actor=operator, pool_id=pool.pk, expected_version=9)
    with pytest.raises(NotFound):
        services.update_pool(actor=operator, pool_id=uuid.uuid4(), name="two")


@pytest.mark.django_db
def test_viewer_changes_nothing(operator: Actor, viewer: Actor) -> None:
    pool = services.create_pool(actor=operator, name="one")
    for call in (
        lambda: services.create_pool(actor=viewer, name="x"),
        lambda: services.update_pool(actor=viewer, pool_id=pool.pk, name="x"),
        lambda: services.delete_pool(actor=viewer, pool_id=pool.pk),
    ):
        with pytest.raises(NotAllowed):
            call()
    assert list(Pool.objects.values_list("name", flat=True)) == ["one"]


@pytest.mark.django_db
def test_pool_with_agents_is_kept_and_they_are_named(operator: Actor) -> None:
    pool = services.create_pool(actor=operator, name="one")
    for number in range(25):
        member(pool, f"agent-{number:02}")
    with pytest.raises(Blocked) as blocked:
        services.delete_pool(actor=operator, pool_id=pool.pk)
    problems = blocked.value.problems
    assert problems[0].problem == "agent-00 is in it"
    assert len(problems) == 21
    assert Pool.objects.filter(pk=pool.pk).exists()
    assert not AuditEntry.objects.filter(verb="delete").exists()


@pytest.mark.django_db
def test_capacity_is_the_sum_of_what_active_agents_report(operator: Actor, viewer: Actor) -> None:
    pool = services.create_pool(actor=operator, name="one")
    member(pool, "a", "active", tier("dram", 10), tier("flash", 100, 1000, 2000))
    member(pool, "b", "active", tier("dram", 30))
    member(pool, "silent", "active")
    member(pool, "locked", "locked", tier("dram", 5000))
    summary = pool_summary(viewer, pool.pk)
    assert (summary.agents, summary.active_agents, summary.reporting_agents) == (4, 3, 2)
    dram, flash = summary.tiers
    assert (dram.tier, dram.agents, dram.stored_bytes, dram.capacity_bytes, dram.limit_bytes) == (
        "dram",
        2,
        40,
        200,
        400,
    )
    assert (flash.tier, flash.stored_bytes, flash.fill_ratio) == ("flash", 100, 0.1)


@pytest.mark.django_db
def test_empty_pool_has_no_tiers_rather_than_zeros(operator: Actor) -> None:
    pool = services.create_pool(actor=operator, name="one")
    summary = pool_summary(operator, pool.pk)
    assert (summary.agents, summary.tiers) == (0, [])
    with pytest.raises(NotFound):
        pool_summary(operator, uuid.uuid4())


@pytest.mark.django_db
def test_summaries_of_many_pools_cost_two_queries(operator: Actor, django_assert_num_queries) -> None:
    for number in range(10):
        pool = services.create_pool(actor=operator, name=f"p{number}")
        member(pool, f"a{number}", "active", tier("dram", number))
    with django_assert_num_queries(2):
        assert sum(summary.tiers[0].stored_bytes for summary in pool_summaries(operator)) == 45


figures = st.fixed_dictionaries(
    {name: st.integers(0, 10**15) for name in ("stored_bytes", "stored_blocks", "capacity_bytes", "limit_bytes")}
)


@given(st.lists(st.dictionaries(st.sampled_from(["dram", "flash", "object"]), figures), max_size=8))
def test_sum_of_tiers_is_the_plain_sum(reports: list[dict[str, dict[str, int]]]) -> None:
    sums = {row.tier: row for row in sum_tiers(reports)}
    assert set(sums) == {name for report in reports for name in report}
    for name, row in sums.items():
        rows = [report[name] for report in reports if name in report]
        assert row.agents == len(rows)
        for column in ("stored_bytes", "stored_blocks", "capacity_bytes", "limit_bytes"):
            assert getattr(row, column) == sum(figure[column] for figure in rows)


@pytest.mark.django_db
def test_pool_through_the_door(api: APIClient, pod: Pod) -> None:
    made = api.post(PATH, {"name": "warm", "pod": str(pod.pk)}, format="json").json()
    assert (made["name"], made["pod_name"], made["agent_count"], made["version"]) == ("warm", "pod-1", 0, 1)
    path = f"{PATH}{made['id']}/"
    member(Pool.objects.get(), "a", "active", tier("dram", 10))
    assert api.get(path).json()["active_agent_count"] == 1
    assert api.get(f"{path}summary/").json()["tiers"][0]["fill_ratio"] == 0.1
    blocked = api.delete(path, headers={"If-Match": '"1"'})
    assert blocked.status_code == 409
    assert blocked.json()["type"].endswith(":blocked")
    assert blocked.json()["problems"][0]["field"] == "agents"
    changed = api.patch(path, {"pod": None}, format="json", headers={"If-Match": '"1"'}).json()
    assert (changed["pod"], changed["name"]) == (None, "warm")


@pytest.mark.django_db
def test_pools_are_filtered_and_ordered(api: APIClient, pod: Pod) -> None:
    Pool.objects.create(name="alpha", pod=pod)
    Pool.objects.create(name="beta")
    names = lambda query: [row["name"] for row in api.get(f"{PATH}?{query}").json()["results"]]  # noqa: E731
    assert names("ordering=-name") == ["beta", "alpha"]
    assert names("name=ALPH") == ["alpha"]
    assert names(f"pod={pod.pk}") == names(f"site={pod.site_id}") == ["alpha"]
    assert api.get(f"{PATH}?pod=x").status_code == 400


@pytest.mark.django_db
def test_unknown_pod_is_a_problem_of_its_field(api: APIClient) -> None:
    response = api.post(PATH, {"name": "warm", "pod": str(uuid.uuid4())}, format="json")
    assert response.status_code == 422
    assert response.json()["problems"][0]["field"] == "pod"
    for bad in ({"id": "x"}, ["x"], 3, "x", {"name__contains": "a"}):
        assert api.post(PATH, {"name": "warm", "pod": bad}, format="json").status_code == 400
    assert not Pool.objects.exists()


@pytest.mark.django_db
def test_viewer_reads_pools(client_for) -> None:
    assert client_for(Role.VIEWER).get(PATH).status_code == 200
