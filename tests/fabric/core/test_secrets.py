"""Secrets are shown once to whom they belong, and stand nowhere else: not in an answer, a row, a page or a log line."""

import base64
import logging
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.sites import site as admin_site
from django.urls import reverse

from fabric.accounts.services import create_api_token, create_user, reset_password
from fabric.agents.services import active_signing_key, create_join_token
from fabric.core.actor import Role
from fabric.core.api import problem_body
from tests.fabric.agents.joining import Joiner, inventory
from tests.fabric.core.routes import routes
from tests.fabric.people import Door, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def canaries(caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Make one of every secret that there is, and use each; return them by name."""
    caplog.set_level(logging.DEBUG)
    admin = person(Role.ADMIN, "root")
    user, password = create_user(actor=admin.as_actor(), username="olga", role="operator")
    reset = reset_password(actor=admin.as_actor(), user_id=user.pk)
    api_token = create_api_token(actor=admin.as_actor(), name="ci", role="admin", expires_at=None).text
    used = create_join_token(actor=admin.as_actor(), name="used", max_uses=2).text
    unused = create_join_token(actor=admin.as_actor(), name="unused").text
    joiner = Joiner(serial="SN-1").enroll(create_join_token(actor=admin.as_actor(), name="j").text)
    joiner.beat(inventory=inventory())
    joiner.try_enroll(used[:14] + "x" * 43)
    joiner.rejoin()
    raw = active_signing_key().private_key.private_bytes_raw()
    assert password
    return {
        "password": password,
        "reset password": reset,
        "API token": api_token.split(".")[1],
        "join token": used.split(".")[1],
        "unused join token": unused.split(".")[1],
        "access token": joiner.access_token.split(".")[1],
        "signing key, base64": base64.b64encode(raw).decode(),
        "signing key, hex": raw.hex(),
    }


def assert_free(text: str, secrets: dict[str, str], where: str) -> None:
    """Check that none of the secrets stands in `text`."""
    found = [name for name, secret in secrets.items() if secret in text]
    assert not found, f"{found} in {where}"


def test_no_row_of_the_database_holds_a_secret(canaries: dict[str, str]) -> None:
    for model in apps.get_models():
        assert_free(str(list(model._default_manager.values())), canaries, model._meta.label)


def test_no_log_line_holds_a_secret(canaries: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    assert_free(caplog.text, canaries, "the log")


def digests() -> dict[str, str]:
    """Return what is kept of secrets: it is not for showing either."""
    kept = {}
    for label in ("accounts.ApiToken", "agents.JoinToken", "agents.AccessToken"):
        for row in apps.get_model(label).objects.all():
            kept[f"digest of {label} {row.pk}"] = row.digest
    for row in apps.get_model("accounts.User").objects.exclude(password__startswith="!"):
        kept[f"password hash of {row.username}"] = row.password
    kept["sealed signing key"] = apps.get_model("agents.SigningKey").objects.get().private_key_encrypted
    return kept


def api_pages(client: Any) -> list[tuple[str, str]]:
    """Return the text of every list and every object of the API."""
    pages = []
    for route in routes():
        if not route.template.startswith("/api/v1/") or "get" not in route.methods or "<" in route.template:
            continue
        response = client.get(route.path())
        pages.append((route.template, response.content.decode()))
        if response.status_code == 200 and isinstance(response.json(), dict):
            for row in response.json().get("results", []):
                if isinstance(row, dict) and "id" in row:
                    path = f"{route.path()}{row['id']}/"
                    pages.append((path, client.get(path).content.decode()))
    return pages


def test_no_answer_of_the_api_holds_a_secret_or_its_digest(canaries: dict[str, str]) -> None:
    client = Door()
    client.force_login(apps.get_model("accounts.User").objects.get(username="root"))
    pages = api_pages(client)
    assert len(pages) > 25
    for where, text in pages:
        assert_free(text, canaries | digests(), where)


def test_no_page_of_the_site_admin_holds_a_secret_or_its_digest(canaries: dict[str, str]) -> None:
    client = Door()
    client.force_login(apps.get_model("accounts.User").objects.get(username="root"))
    seen = 0
    for model in admin_site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        paths = [reverse(f"{name}_changelist")]
        paths += [reverse(f"{name}_change", args=[row.pk]) for row in model._default_manager.all()[:3]]
        for path in paths:
            response = client.get(path)
            assert response.status_code == 200, path
            assert_free(response.content.decode(), canaries | digests(), path)
            seen += 1
    assert seen > 20


def test_the_site_admin_writes_nothing() -> None:
    client = Door()
    client.force_login(person(Role.ADMIN, "root"))
    checked = 0
    for model, options in admin_site._registry.items():
        if model._meta.app_label in {"accounts", "audit", "inventory", "pools", "agents"}:
            name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
            assert client.get(reverse(f"{name}_add")).status_code == 403
            assert options.actions in ((), [], None) or options.actions == ()
            checked += 1
    assert checked >= 15


def test_viewers_and_operators_do_not_get_into_the_site_admin() -> None:
    for role in (Role.VIEWER, Role.OPERATOR):
        client = Door()
        client.force_login(person(role))
        assert client.get("/admin/").status_code == 302


def test_errors_do_not_repeat_what_was_sent() -> None:
    secret = "kvj1_abcdefgh." + "S" * 43
    body = {"token_id": secret, "token_secret": secret, "public_key": secret}
    response = Door().post("/agent/v1/enroll", body, format="json")
    assert response.status_code == 422
    assert "S" * 43 not in response.content.decode()
    assert "problems" not in problem_body(400, "x", "y")
