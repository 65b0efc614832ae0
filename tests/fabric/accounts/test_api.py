"""Accounts through their doors."""

from datetime import timedelta

import pytest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from rest_framework.test import APIClient

from fabric.accounts.models import ApiToken, User
from fabric.core.actor import Role
from tests.fabric.people import Door, bearer_client, client_with, person

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def session(user: User) -> APIClient:
    """Return a client with a session, CSRF left aside."""
    client = Door()
    client.force_login(user)
    return client


def test_token_made_in_a_session_is_shown_once_and_works() -> None:
    client = session(person(Role.OPERATOR))
    response = client.post("/api/v1/tokens/", {"name": "ci", "role": "viewer"}, format="json")
    assert response.status_code == 201
    assert response["Cache-Control"] == "no-store"
    made = response.json()
    life = parse_datetime(made["expires_at"]) - timezone.now()
    assert timedelta(days=89) < life < timedelta(days=91)
    assert client_with(made["token"]).get("/api/v1/me/").json()["role"] == "viewer"
    again = client.get(f"/api/v1/tokens/{made['id']}/").json()
    assert "token" not in again
    assert made["token"].split(".")[1] not in client.get("/api/v1/tokens/").content.decode()


def test_token_may_be_made_without_expiry_when_asked_for() -> None:
    client = session(person(Role.OPERATOR))
    body = {"name": "ci", "role": "viewer", "expires_at": None}
    assert client.post("/api/v1/tokens/", body, format="json").json()["expires_at"] is None


@pytest.mark.parametrize("field", ["digest", "key_id", "user", "last_used_at", "pepper_id", "revoked_at"])
def test_token_takes_no_field_that_is_the_servers(field: str) -> None:
    body = {"name": "ci", "role": "viewer", field: "x"}
    response = session(person(Role.OPERATOR)).post("/api/v1/tokens/", body, format="json")
    assert response.json()["problems"][0]["field"] == field
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_token_cannot_be_changed_after_birth(method: str) -> None:
    user = person(Role.OPERATOR)
    client = bearer_client(user, Role.VIEWER)
    token = user.api_tokens.get()
    response = getattr(client, method)(f"/api/v1/tokens/{token.pk}/", {"role": "operator"}, format="json")
    assert response.status_code == 405
    token.refresh_from_db()
    assert token.role == "viewer"


def test_admin_makes_lists_and_changes_people() -> None:
    client = bearer_client(person(Role.ADMIN, "root"))
    made = client.post("/api/v1/users/", {"username": "olga", "role": "operator"}, format="json")
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    assert len(made.json()["generated_password"]) >= 20
    path = f"/api/v1/users/{made.json()['id']}/"
    assert client.patch(path, {"role": "viewer"}, format="json").json()["role"] == "viewer"
    assert "generated_password" not in client.get(path).json()
    reset = client.post(f"{path}reset_password/").json()["generated_password"]
    assert reset != made.json()["generated_password"]
    assert client.get("/api/v1/users/?role=viewer").json()["count"] == 1
    assert [row["username"] for row in client.get("/api/v1/users/?ordering=-username").json()["results"]] == [
        "root",
        "olga",
    ]
    assert client.get("/api/v1/users/?ordering=password").status_code == 400


def test_hashes_of_passwords_appear_nowhere() -> None:
    client = bearer_client(person(Role.ADMIN))
    client.post("/api/v1/users/", {"username": "olga", "role": "viewer", "password": PASSWORD}, format="json")
    for path in ("/api/v1/users/", "/api/v1/audit/", "/api/v1/tokens/"):
        text = client.get(path).content.decode()
        assert "argon2" not in text
        assert "password" not in text.replace("change_password", "")


def test_person_changes_preferences_and_password_in_a_session() -> None:
    user = person(Role.VIEWER)
    user.set_password(PASSWORD)
    user.save()
    client = session(user)
    changed = client.patch("/api/v1/me/", {"theme": "dark", "time_zone": "Europe/Berlin"}, format="json")
    assert changed.json()["theme"] == "dark"
    assert client.patch("/api/v1/me/", {"role": "admin"}, format="json").status_code == 400
    body = {"old_password": PASSWORD, "new_password": PASSWORD + " staple"}
    assert client.post("/api/v1/me/password/", body, format="json").status_code == 204
    assert client.get("/api/v1/me/").status_code == 200, "the session that changed it goes on"


def test_token_has_neither_preferences_nor_a_password() -> None:
    client = bearer_client(person(Role.VIEWER))
    assert client.patch("/api/v1/me/", {"theme": "dark"}, format="json").status_code == 403
    body = {"old_password": "x", "new_password": PASSWORD}
    assert client.post("/api/v1/me/password/", body, format="json").status_code == 403
