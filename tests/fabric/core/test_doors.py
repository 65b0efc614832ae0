"""Who gets through which door. Every route of the site is tried; the few open ones are listed here, and a new one
fails.
"""

from typing import Any

import pytest

from fabric.accounts.services import create_api_token
from fabric.agents.models import Agent
from fabric.core.actor import Role
from tests.fabric.agents.joining import Joiner
from tests.fabric.core.routes import routes
from tests.fabric.people import Door, bearer_client, client_with, person

pytestmark = pytest.mark.django_db

OPEN = {
    "/livez": "probe (decision 0003)",
    "/readyz": "probe (decision 0003)",
    "/login/": "where people sign in",
    "/admin/login/": "where people sign in",
}
"""Paths that answer a stranger's GET with a page."""
JOIN_DOORS = {"/agent/v1/enroll/challenge", "/agent/v1/enroll", "/agent/v1/rejoin/challenge", "/agent/v1/rejoin"}
"""Paths that prove each message by itself."""
METHODS = ("get", "post", "put", "patch", "delete", "head", "options")


def opened(response: Any) -> bool:
    """Tell whether something came through: neither turned away, nor sent to the login page, nor nothing there."""
    if response.status_code in (301, 302):
        return "login" not in response["Location"]
    return response.status_code not in (400, 401, 403, 404, 405, 415, 422, 429)


def test_stranger_finds_only_the_open_doors() -> None:
    found = set()
    for route in routes():
        path = route.path()
        for method in METHODS:
            if opened(getattr(Door(), method)(path)):
                found.add(path)
    assert found <= set(OPEN), f"open to strangers: {sorted(found - set(OPEN))}"


def test_agents_token_opens_no_door_but_its_own() -> None:
    joiner = Joiner().enroll()
    client, found = client_with(joiner.access_token), set()
    for route in routes():
        path = route.path(pk=joiner.agent_id, agent_id=joiner.agent_id, topic=f"agent:{joiner.agent_id}")
        if path.startswith("/agent/v1/"):
            continue
        for method in METHODS:
            if opened(getattr(client, method)(path)):
                found.add(path)
    assert found <= set(OPEN), f"an agent's token opens {sorted(found - set(OPEN))}"
    assert joiner.beat().status_code == 200


@pytest.mark.parametrize("role", list(Role))
def test_peoples_tokens_and_sessions_open_no_door_for_agents(role: Role) -> None:
    joiner, user = Joiner().enroll(), person(role)
    session = Door()
    session.force_login(user)
    for client in (bearer_client(user), session):
        response = client.post("/agent/v1/heartbeat", joiner.heartbeat(), format="json")
        assert response.status_code == 401
        for path in JOIN_DOORS:
            assert client.post(path, {}, format="json").status_code == 422
    assert joiner.row.last_heartbeat_at is None
    assert Agent.objects.count() == 1


def test_agents_token_acts_for_no_other_agent() -> None:
    one, other = Joiner().enroll(), Joiner(hostname="b").enroll()
    body = other.heartbeat()
    assert one.post("heartbeat", body, one.access_token).status_code == 403
    assert one.post("rejoin", one.rejoin_request(agent_id=other.agent_id)).status_code == 403
    assert other.row.last_heartbeat_at is None
    assert (other.row.join_seq, other.row.state) == (1, "active")


def test_credentials_in_the_address_are_no_credentials() -> None:
    made = create_api_token(actor=person(Role.ADMIN).as_actor(), name="t", role="admin", expires_at=None)
    for name in ("token", "access_token", "api_key", "authorization"):
        assert Door().get(f"/api/v1/sites/?{name}={made.text}").status_code == 401
