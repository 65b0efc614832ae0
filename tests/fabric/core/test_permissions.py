"""Which role reaches which operation of the API: every operation of these apps, every role, and nothing changed
when refused.
"""

import json
from typing import Any

import pytest
from django.apps import apps
from rest_framework.test import APIClient

from fabric.accounts.models import ApiToken
from fabric.agents.models import Agent, JoinToken
from fabric.agents.services import create_join_token
from fabric.core.actor import SYSTEM, Actor, ActorKind, Role
from fabric.inventory.models import Dpu, Host, NetworkInterface, Pod, Site, Ssd, Switch
from fabric.pools.models import Pool
from tests.fabric.core.routes import routes
from tests.fabric.people import Door, bearer_client, person

pytestmark = pytest.mark.django_db
MINE = ("fabric.accounts.", "fabric.audit.", "fabric.inventory.", "fabric.pools.", "fabric.agents.")
VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN
PERSON = None
"""For people who have signed in only: no token reaches it, whatever its role."""
UUID_TEMPLATE = "<uuid:pk>"

TABLE: dict[tuple[str, str], tuple[Role | None, dict[str, Any]]] = {
    ("get", "me/"): (VIEWER, {}),
    ("patch", "me/"): (PERSON, {"theme": "dark"}),
    ("post", "me/password/"): (PERSON, {"old_password": "x", "new_password": "correct horse battery"}),
    ("get", "users/"): (ADMIN, {}),
    ("post", "users/"): (ADMIN, {"username": "new", "role": "viewer", "password": "correct horse battery"}),
    ("get", "users/<uuid:pk>/"): (ADMIN, {}),
    ("patch", "users/<uuid:pk>/"): (ADMIN, {"role": "admin"}),
    ("post", "users/<uuid:pk>/reset_password/"): (ADMIN, {}),
    ("get", "tokens/"): (VIEWER, {}),
    ("post", "tokens/"): (PERSON, {"name": "x", "role": "viewer"}),
    ("get", "tokens/<uuid:pk>/"): (ADMIN, {}),
    ("post", "tokens/<uuid:pk>/revoke/"): (ADMIN, {}),
    ("get", "audit/"): (VIEWER, {}),
    ("get", "audit/<uuid:pk>/"): (VIEWER, {}),
    ("get", "interfaces/"): (VIEWER, {}),
    ("get", "interfaces/<uuid:pk>/"): (VIEWER, {}),
    ("get", "pools/<uuid:pk>/summary/"): (VIEWER, {}),
    ("get", "agents/"): (VIEWER, {}),
    ("get", "agents/<uuid:pk>/"): (VIEWER, {}),
    ("patch", "agents/<uuid:pk>/"): (OPERATOR, {"name": "renamed"}),
    ("delete", "agents/<uuid:pk>/"): (OPERATOR, {}),
    ("post", "agents/<uuid:pk>/approve/"): (ADMIN, {}),
    ("post", "agents/<uuid:pk>/unlock/"): (ADMIN, {}),
    ("post", "agents/<uuid:pk>/revoke/"): (OPERATOR, {}),
    ("get", "join-tokens/"): (OPERATOR, {}),
    ("post", "join-tokens/"): (OPERATOR, {"name": "x"}),
    ("get", "join-tokens/<uuid:pk>/"): (OPERATOR, {}),
    ("post", "join-tokens/<uuid:pk>/revoke/"): (OPERATOR, {}),
}
for kind, body in {
    "sites": {"name": "new", "slug": "new"},
    "pods": {"name": "new", "site": "SITE"},
    "hosts": {"name": "new"},
    "dpus": {"name": "new"},
    "ssds": {"name": "new"},
    "switches": {"name": "new"},
    "pools": {"name": "new"},
}.items():
    TABLE |= {
        ("get", f"{kind}/"): (VIEWER, {}),
        ("post", f"{kind}/"): (OPERATOR, body),
        ("get", f"{kind}/<uuid:pk>/"): (VIEWER, {}),
        ("patch", f"{kind}/<uuid:pk>/"): (OPERATOR, {"name": "renamed"}),
        ("delete", f"{kind}/<uuid:pk>/"): (OPERATOR, {}),
    }


def make_one(kind: str) -> Any:
    """Return an object of the kind that each operation on it would change."""
    site = Site.objects.create(name="here", slug="here")
    agent = {"hostname": "a", "agent_version": "1", "public_key": "k", "manage_url": "x", "data_url": "x"}
    makers: dict[str, Any] = {
        "sites": lambda: site,
        "pods": lambda: Pod.objects.create(site=site, name="p"),
        "hosts": lambda: Host.objects.create(name="h"),
        "dpus": lambda: Dpu.objects.create(name="d"),
        "ssds": lambda: Ssd.objects.create(name="s"),
        "switches": lambda: Switch.objects.create(name="w"),
        "interfaces": lambda: NetworkInterface.objects.create(
            host=Host.objects.create(name="h"), name="eth0", kind="physical"
        ),
        "pools": lambda: Pool.objects.create(name="pool"),
        "agents": lambda: Agent.objects.create(name="a", **agent),
        "unlock": lambda: Agent.objects.create(name="a", state="locked", **agent),
        "users": lambda: person(VIEWER, "somebody"),
        "tokens": lambda: bearer_client(person(VIEWER, "somebody")) and ApiToken.objects.get(user__username="somebody"),
        "join-tokens": lambda: create_join_token(actor=SYSTEM, name="t").token,
        "audit": lambda: create_join_token(actor=SYSTEM, name="t") and _first_audit_row(),
    }
    return makers[kind]() if kind in makers else None


def _first_audit_row() -> Any:
    return apps.get_model("audit", "AuditEntry").objects.first()


def snapshot() -> dict[str, list[Any]]:
    """Return every row of these apps, but for when a token was last used."""
    rows = {}
    for model in apps.get_models():
        if model._meta.app_label in {"accounts", "audit", "inventory", "pools", "agents"}:
            values = model._default_manager.order_by("pk").values()
            rows[model._meta.label] = [{k: v for k, v in row.items() if k != "last_used_at"} for row in values]
    return rows


def test_every_operation_of_these_apps_is_in_the_table() -> None:
    found = {
        (method, route.template.removeprefix("/api/v1/"))
        for route in routes()
        if route.template.startswith("/api/v1/") and route.module.startswith(MINE)
        for method in route.methods
    }
    assert found == set(TABLE)


@pytest.mark.parametrize(("method", "template"), TABLE, ids=lambda part: part)
def test_each_role_reaches_what_the_table_says_and_refusals_change_nothing(method: str, template: str) -> None:
    needed, body = TABLE[method, template]
    kind = "unlock" if template.endswith("unlock/") else template.split("/")[0]
    one = make_one(kind)
    clients: dict[str, APIClient] = {"stranger": Door()} | {role.value: bearer_client(person(role)) for role in Role}
    site = Site.objects.first()
    body = {name: str(site.pk) if value == "SITE" and site else value for name, value in body.items()}
    path = "/api/v1/" + template.replace(UUID_TEMPLATE, str(one.pk) if one else "")
    # From the least to the most powerful: the last one's success may change what the others would have seen.
    for name in ("stranger", "viewer", "operator", "admin"):
        allowed = name != "stranger" and needed is not None and Actor(ActorKind.USER, "", name, Role(name)).may(needed)
        before = snapshot()
        response = clients[name].generic(
            method.upper(),
            path,
            json.dumps(body) if method != "get" else "",
            "application/json",
            headers={"If-Match": '"1"'},
        )
        if allowed:
            assert response.status_code < 300, (name, response.content)
            return
        expected = {401} if name == "stranger" else {403, 404}
        assert response.status_code in expected, (name, response.status_code, response.content)
        assert snapshot() == before, f"{name} was refused and something changed"


def test_viewers_cannot_read_join_tokens_or_people_in_any_list() -> None:
    create_join_token(actor=SYSTEM, name="hidden join token")
    person(ADMIN, "hidden-person")
    client = bearer_client(person(VIEWER))
    for path in ("join-tokens/", "users/", f"join-tokens/{JoinToken.objects.get().pk}/"):
        assert client.get(f"/api/v1/{path}").status_code == 403
    assert "hidden-person" not in client.get("/api/v1/tokens/").content.decode()
