"""Agents: the join token shown once, trust, moving to another pool, what an agent reports."""

import pytest
from django.test import Client

from fabric.agents.models import Agent, AgentState, JoinToken
from fabric.core.actor import Role
from fabric.pools.services import create_pool
from tests.ui.conftest import ClientOf
from tests.ui.html import Document
from tests.ui.test_inventory_forms import _errors, _form
from tests.ui.world import OPERATOR, World, make_agent


def test_join_token_is_shown_once_in_the_command_that_uses_it(operator: Client, world: World) -> None:
    data = {"name": "kv-07", "pool": str(world.pool.pk), "life_min": "60", "max_uses": "1"}
    response = operator.post("/agents/join/", data)
    text = response.content.decode()
    token = JoinToken.objects.get(name="kv-07")
    assert f"kvj1_{token.token_id}." in text
    assert "KVAGENT_JOIN_TOKEN_FILE=join-token" in text
    assert "KVAGENT_NAME=kv-07" in text
    assert "no-store" in response["Cache-Control"]
    assert token.pool_id == world.pool.pk
    assert f"kvj1_{token.token_id}" not in operator.get("/agents/join/").content.decode()


def test_token_name_cannot_break_out_of_the_command(operator: Client, db: None) -> None:
    name = "x; rm -rf / #$(id)"
    page = Document(operator.post("/agents/join/", {"name": name, "life_min": "60", "max_uses": "1"}).content.decode())
    command = next(e for e in page.all("code") if "KVAGENT_NAME" in e.text)
    assert "rm -rf /" not in command.text
    assert "$(" not in command.text


def test_join_form_takes_the_pool_of_the_link_and_names_what_is_wrong(operator: Client, world: World) -> None:
    assert _form(operator, f"/agents/join/?pool={world.pool.pk}")["pool"] == str(world.pool.pk)
    assert operator.get("/agents/join/?pool=nonsense").status_code == 200
    base = {"name": "a", "life_min": "60", "max_uses": "1"}
    bad = operator.post("/agents/join/", base | {"allowed_cidr": "10.0.0.1/99", "max_uses": "0"})
    assert bad.status_code == 422
    assert any("greater than or equal to 1" in error for error in _errors(bad))
    network = operator.post("/agents/join/", base | {"allowed_cidr": "10.0.0.1/99"})
    assert any("not a network" in error for error in _errors(network))


def test_revoked_join_token_says_so(operator: Client, world: World) -> None:
    path = f"/agents/join/{world.join_token.pk}/revoke/"
    assert operator.post(path, {"reason": ""})["Location"] == "/agents/join/"
    text = operator.get("/agents/join/").content.decode()
    assert "revoked" in text
    assert path not in text


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
@pytest.mark.parametrize("state", list(AgentState))
def test_trust_buttons_are_those_that_the_service_accepts(
    client_of: ClientOf, world: World, role: Role, state: AgentState
) -> None:
    client = client_of(role)
    for verb, label in (("approve", "Approve"), ("unlock", "Unlock"), ("revoke", "Revoke")):
        agent = make_agent(world.pool, f"{verb}-{state}", state=state)
        words = {e.text.strip() for e in Document(client.get(agent.get_absolute_url()).content.decode()).all("a")}
        client.post(f"{agent.get_absolute_url()}{verb}/", {"reason": "test"})
        changed = Agent.objects.get(pk=agent.pk).state != state
        assert (label in words) == changed, f"{role} may {verb} a {state} agent"


def test_agent_moves_to_another_pool_and_out_of_all(operator: Client, world: World) -> None:
    cold = create_pool(actor=OPERATOR, name="cold")
    path = f"{world.agent.get_absolute_url()}edit/"
    assert operator.post(path, _form(operator, path) | {"pool": str(cold.pk)}).status_code == 302
    assert Agent.objects.get().pool == cold
    assert operator.post(path, _form(operator, path) | {"pool": ""}).status_code == 302
    assert Agent.objects.get().pool is None


def test_taken_agent_name_is_named_beside_the_field(operator: Client, world: World) -> None:
    make_agent(world.pool, "kv-09")
    path = f"{world.agent.get_absolute_url()}edit/"
    response = operator.post(path, _form(operator, path) | {"name": "kv-09"})
    assert response.status_code == 422
    assert any("another agent has this name" in error.lower() for error in _errors(response))


def test_delete_is_offered_only_for_agents_that_are_not_trusted(operator: Client, world: World) -> None:
    assert "/delete/" not in operator.get(world.agent.get_absolute_url()).content.decode()
    Agent.objects.update(state=AgentState.REVOKED)
    assert "/delete/" in operator.get(world.agent.get_absolute_url()).content.decode()
    operator.post(f"{world.agent.get_absolute_url()}delete/", {"reason": "gone"})
    assert not Agent.objects.exists()


def test_agent_page_shows_what_it_reports_and_no_secret(viewer: Client, world: World) -> None:
    page = Document(viewer.get(world.agent.get_absolute_url()).content.decode())
    text = " ".join(page.first("main").text.split())  # type: ignore[union-attr]
    condition = next(e for e in page.all("div") if "clock skew" in e.text and e.attrs.get("class") == "row")
    assert condition.text.replace("clock skew", "").split() == ["yesoffset"]
    assert "70 s off" in text
    assert "fifo" in text
    assert "3 MiB" in text
    assert world.agent.public_key not in page.source


def test_refused_policy_is_shown_on_the_agents_page(viewer: Client, world: World) -> None:
    Agent.objects.update(apply_problems=[{"field": "tiers.flash", "problem": "no flash", "remedy": "give it one"}])
    text = viewer.get(world.agent.get_absolute_url()).content.decode()
    assert "It refused its policy" in text
    assert "no flash: give it one" in text
