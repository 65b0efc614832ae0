"""What people decide about agents, by service and by door."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.test import APIClient

from fabric.agents import services
from fabric.agents.domain import TRUST_TRANSITIONS, TrustVerb
from fabric.agents.models import Agent, AgentState, JoinToken
from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor, Role
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound
from fabric.pools.models import Pool
from tests.fabric.agents.joining import Joiner, join_token

PATH = "/api/v1/agents/"
SERVICES = {
    TrustVerb.APPROVE: services.approve_agent,
    TrustVerb.UNLOCK: services.unlock_agent,
    TrustVerb.REVOKE: services.revoke_agent,
}


def agent(name: str = "a", **columns: Any) -> Agent:
    """Return an agent."""
    facts = {"hostname": name, "agent_version": "1", "public_key": name, "manage_url": "x", "data_url": "x"}
    return Agent.objects.create(name=name, **(facts | columns))


@pytest.mark.django_db
@pytest.mark.parametrize("state", AgentState.values)
@pytest.mark.parametrize("verb", list(TrustVerb))
def test_every_verb_does_what_the_table_says_in_every_state(admin: Actor, state: str, verb: TrustVerb) -> None:
    row = agent(state=state)
    expected = TRUST_TRANSITIONS[state].get(verb)
    if expected is None:
        with pytest.raises(Conflict):
            SERVICES[verb](actor=admin, agent_id=row.pk)
        expected = state
    else:
        SERVICES[verb](actor=admin, agent_id=row.pk, reason="why")
        entry = AuditEntry.objects.get(verb=verb.value)
        assert (entry.before, entry.after, entry.reason) == ({"state": state}, {"state": expected}, "why")
    row.refresh_from_db()
    assert row.state == expected


@given(st.lists(st.sampled_from(list(TrustVerb)), max_size=8), st.sampled_from(AgentState.values))
def test_nothing_leads_out_of_revoked(verbs: list[TrustVerb], state: str) -> None:
    revoked = state == "revoked"
    for verb in verbs:
        state = TRUST_TRANSITIONS[state].get(verb, state)
        assert not revoked or state == "revoked"
        revoked = state == "revoked"


@pytest.mark.django_db
def test_giving_trust_is_for_admins_and_taking_it_for_operators_too(operator: Actor, viewer: Actor) -> None:
    waiting, locked, active = agent("p"), agent("l", state="locked"), agent("a", state="active")
    for actor in (operator, viewer):
        with pytest.raises(NotAllowed):
            services.approve_agent(actor=actor, agent_id=waiting.pk)
        with pytest.raises(NotAllowed):
            services.unlock_agent(actor=actor, agent_id=locked.pk)
    with pytest.raises(NotAllowed):
        services.revoke_agent(actor=viewer, agent_id=active.pk)
    assert services.revoke_agent(actor=operator, agent_id=active.pk).state == "revoked"


@pytest.mark.django_db
def test_second_machine_with_a_serial_gets_in_only_after_the_first_is_out(admin: Actor) -> None:
    first = Joiner(serial="SN-1").enroll()
    second = Joiner(serial="SN-1", hostname="b").enroll()
    with pytest.raises(Blocked) as blocked:
        services.approve_agent(actor=admin, agent_id=second.row.pk)
    assert first.row.name in blocked.value.problems[0].problem
    services.revoke_agent(actor=admin, agent_id=first.row.pk)
    services.approve_agent(actor=admin, agent_id=second.row.pk)
    assert second.beat().status_code == 200
    assert first.beat().status_code == 403


@pytest.mark.django_db
def test_agent_is_renamed_and_moved_with_its_own_audit_verbs(operator: Actor) -> None:
    pool, row = Pool.objects.create(name="warm"), agent()
    services.update_agent(actor=operator, agent_id=row.pk, name="b")
    services.update_agent(actor=operator, agent_id=row.pk, pool_id=pool.pk, reason="new rack")
    services.update_agent(actor=operator, agent_id=row.pk, leave_pool=True)
    services.update_agent(actor=operator, agent_id=row.pk)
    rows = AuditEntry.objects.filter(object_id=str(row.pk)).order_by("at")
    assert [(r.verb, r.before, r.after) for r in rows] == [
        ("update", {"name": "a"}, {"name": "b"}),
        ("move", {"pool": None}, {"pool": "warm"}),
        ("move", {"pool": "warm"}, {"pool": None}),
    ]


@pytest.mark.django_db
def test_bad_changes_are_refused(operator: Actor, viewer: Actor) -> None:
    row = agent()
    agent("taken")
    with pytest.raises(Conflict):
        services.update_agent(actor=operator, agent_id=row.pk, name="taken")
    with pytest.raises(Invalid):
        services.update_agent(actor=operator, agent_id=row.pk, name=" ")
    with pytest.raises(Invalid):
        services.update_agent(actor=operator, agent_id=row.pk, pool_id=uuid4())
    with pytest.raises(NotFound):
        services.update_agent(actor=operator, agent_id=uuid4(), name="x")
    with pytest.raises(NotAllowed):
        services.update_agent(actor=viewer, agent_id=row.pk, name="x")
    row.refresh_from_db()
    assert (row.name, row.pool, row.version) == ("a", None, 1)


@pytest.mark.django_db
@pytest.mark.parametrize("state", AgentState.values)
def test_only_an_agent_without_trust_is_forgotten(operator: Actor, state: str) -> None:
    row = agent(state=state)
    if state in ("active", "locked"):
        with pytest.raises(Blocked):
            services.delete_agent(actor=operator, agent_id=row.pk)
        assert Agent.objects.exists()
    else:
        services.delete_agent(actor=operator, agent_id=row.pk, reason="gone")
        assert not Agent.objects.exists()
        assert AuditEntry.objects.get(verb="delete").before["state"] == state


# --- join tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"name": ""}, "name"),
        ({"max_uses": 0}, "max_uses"),
        ({"max_uses": 1001}, "max_uses"),
        ({"life": timedelta(hours=24, seconds=1)}, "life"),
        ({"life": timedelta(0)}, "life"),
        ({"allowed_cidr": "10.0.0.1/8"}, "allowed_cidr"),
        ({"allowed_cidr": "everywhere"}, "allowed_cidr"),
        ({"pool_id": uuid4()}, "pool"),
        ({"expected_serial": "a\nb"}, "expected_serial"),
    ],
)
def test_join_token_that_makes_no_sense_is_refused(operator: Actor, facts: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        services.create_join_token(actor=operator, **({"name": "t"} | facts))
    assert [problem.field for problem in refused.value.problems] == [field]
    assert not JoinToken.objects.exists()


@pytest.mark.django_db
def test_join_tokens_are_for_operators_shown_once_and_revoked_once(operator: Actor, viewer: Actor) -> None:
    with pytest.raises(NotAllowed):
        services.create_join_token(actor=viewer, name="t")
    made = services.create_join_token(actor=operator, name="t")
    secret = made.text.split(".")[1]
    assert secret not in str(JoinToken.objects.values().get())
    assert secret not in repr(made)
    with pytest.raises(NotAllowed):
        services.revoke_join_token(actor=viewer, token_id=made.token.pk)
    services.revoke_join_token(actor=operator, token_id=made.token.pk)
    with pytest.raises(Conflict):
        services.revoke_join_token(actor=operator, token_id=made.token.pk)
    with pytest.raises(NotFound):
        services.revoke_join_token(actor=operator, token_id=uuid4())


@pytest.mark.django_db
def test_join_token_through_the_door_lets_one_machine_in(client_for) -> None:
    api, pool = client_for(Role.OPERATOR), Pool.objects.create(name="warm")
    body = {"name": "rack 7", "pool": str(pool.pk), "life_s": 600, "allowed_cidr": "127.0.0.0/8"}
    made = api.post("/api/v1/join-tokens/", body, format="json")
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    joiner = Joiner().enroll(made.json()["token"])
    assert joiner.row.pool == pool
    listed = api.get(f"/api/v1/join-tokens/{made.json()['id']}/").json()
    assert (listed["uses"], listed["pool_name"], "token" in listed) == (1, "warm", False)
    assert api.post(f"/api/v1/join-tokens/{made.json()['id']}/revoke/", {}, format="json").json()["revoked_at"]
    assert client_for(Role.VIEWER).get("/api/v1/join-tokens/").status_code == 403


# --- agents through the door -----------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_agents_are_listed_and_read_with_their_sync_state(api: APIClient) -> None:
    joiner = Joiner().enroll()
    joiner.beat()
    row = api.get(PATH).json()["results"][0]
    assert (row["id"], row["sync"], row["state"]) == (joiner.agent_id, "unknown", "active")
    assert row["heartbeat_age_s"] < 60
    assert row["tiers"]["dram"]["capacity_bytes"] == 100
    detail = api.get(f"{PATH}{joiner.agent_id}/").json()
    assert detail["public_key"] == joiner.public_key
    assert detail["status"]["boot_id"] == "boot-1"
    assert api.get(f"{PATH}{uuid4()}/").status_code == 404


@pytest.mark.django_db
def test_agents_are_filtered_and_ordered(api: APIClient) -> None:
    pool = Pool.objects.create(name="p")
    agent("a", pool=pool, serial="SN-1")
    agent("b", state="locked")
    names = lambda query: [row["name"] for row in api.get(f"{PATH}?{query}").json()["results"]]  # noqa: E731
    assert names("ordering=-name") == ["b", "a"]
    assert names(f"pool={pool.pk}") == names("serial=sn-1") == names("state=pending") == ["a"]
    assert names("state=locked") == ["b"]
    for query in ("ordering=public_key", "ordering=access_tokens__digest", "state=x", "public_key=x"):
        assert api.get(f"{PATH}?{query}").status_code == 400


@pytest.mark.django_db
def test_agent_is_moved_approved_revoked_and_forgotten_through_the_door(client_for) -> None:
    admin, pool = client_for(Role.ADMIN), Pool.objects.create(name="warm")
    joiner = Joiner().enroll(join_token(needs_approval=True))
    path = f"{PATH}{joiner.agent_id}/"
    moved = admin.patch(path, {"pool": str(pool.pk), "reason": "r"}, format="json", headers={"If-Match": '"1"'})
    assert (moved.json()["pool_name"], moved["ETag"]) == ("warm", '"2"')
    assert admin.post(f"{path}approve/", {"reason": "known"}, format="json").json()["state"] == "active"
    assert joiner.beat().status_code == 200
    again = admin.post(f"{path}approve/", {}, format="json")
    assert (again.status_code, again.json()["problems"][0]["field"]) == (409, "state")
    alone = admin.patch(path, {"pool": None}, format="json", headers={"If-Match": '"3"'})
    assert alone.json()["pool"] is None
    blocked = admin.delete(path, headers={"If-Match": '"4"'})
    assert blocked.json()["type"].endswith(":blocked")
    assert admin.post(f"{path}revoke/", {}, format="json").json()["state"] == "revoked"
    assert admin.delete(path, headers={"If-Match": '"5"'}).status_code == 204


@pytest.mark.django_db
@pytest.mark.parametrize("field", ["state", "desired_generation", "public_key", "manage_url", "host", "join_seq"])
def test_what_is_not_for_people_to_change_cannot_be_sent(api: APIClient, field: str) -> None:
    row = agent()
    response = api.patch(f"{PATH}{row.pk}/", {field: "active"}, format="json", headers={"If-Match": '"1"'})
    assert (response.status_code, response.json()["problems"][0]["field"]) == (400, field)


@pytest.mark.django_db
def test_agents_are_not_made_by_people(client_for) -> None:
    assert client_for(Role.ADMIN).post(PATH, {"name": "x"}, format="json").status_code == 405
    assert not Agent.objects.exists()
