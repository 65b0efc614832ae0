"""Signing in and out, preferences, password, API tokens, theme."""

import pytest
from django.test import Client

from fabric.accounts.models import ApiToken, User
from fabric.core.actor import Role
from tests.fabric.people import person
from tests.ui.html import Document, faults_of
from tests.ui.test_inventory_forms import _errors

PASSWORD = "correct-horse-battery-9"


@pytest.fixture
def olga(db: None) -> User:
    """An operator with a password."""
    user = person(Role.OPERATOR, "olga")
    user.set_password(PASSWORD)
    user.save()
    return user


def _sign_in(client: Client, password: str = PASSWORD, **more: str) -> object:
    return client.post("/login/", {"username": "olga", "password": password, **more})


def test_login_page_is_sound_and_leads_to_where_one_wanted_to_go(client: Client, olga: User) -> None:
    assert not faults_of(client.get("/login/?next=/pools/").content.decode())
    assert _sign_in(client, next="/pools/")["Location"] == "/pools/"  # type: ignore[index]
    assert client.get("/login/").status_code == 302, "somebody who is signed in need not do it again"


def test_login_never_leads_to_a_foreign_address(client: Client, olga: User) -> None:
    assert _sign_in(client, next="https://evil.example/")["Location"] == "/"  # type: ignore[index]


def test_wrong_password_is_said_without_saying_which_half_was_wrong(client: Client, olga: User) -> None:
    wrong = _sign_in(client, "nope").content.decode()  # type: ignore[attr-defined]
    unknown = client.post("/login/", {"username": "nobody", "password": "nope"}).content.decode()
    note = "Please enter a correct username and password"
    assert note in wrong
    assert note in unknown
    assert "nope" not in wrong


def test_guessing_is_slowed_down_before_the_password_is_looked_at(client: Client, olga: User) -> None:
    for _ in range(10):
        assert _sign_in(client, "nope").status_code == 200  # type: ignore[attr-defined]
    held = _sign_in(client)
    assert held.status_code == 429  # type: ignore[attr-defined]
    assert int(held["Retry-After"]) > 0  # type: ignore[index]
    assert "Too many attempts" in held.content.decode()  # type: ignore[attr-defined]
    assert "_auth_user_id" not in client.session


def test_sign_out_needs_a_post_and_ends_the_session(client: Client, olga: User) -> None:
    _sign_in(client)
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/").status_code == 302


def test_forms_are_refused_without_the_csrf_token(olga: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(olga)
    refused = client.post("/account/theme/", {"theme": "dark"})
    assert refused.status_code == 403
    assert "Nothing was changed" in refused.content.decode()
    token = Document(client.get("/account/").content.decode()).all("meta")
    value = next(e.attrs["content"] for e in token if e.attrs.get("name") == "csrf-token")
    assert client.post("/account/theme/", {"theme": "dark"}, headers={"X-CSRFToken": value}).status_code == 302


def test_preferences_change_the_page(client: Client, olga: User) -> None:
    client.force_login(olga)
    client.post("/account/preferences/", {"theme": "dark", "time_zone": "Asia/Shanghai"})
    html = Document(client.get("/").content.decode()).first("html")
    assert html is not None
    assert html.attrs["data-theme"] == "dark"
    assert html.attrs["data-time-zone"] == "Asia/Shanghai"
    bad = client.post("/account/preferences/", {"theme": "pink", "time_zone": "Mars/Olympus"})
    assert bad.status_code == 422
    assert len(_errors(bad)) == 2


def test_theme_of_the_menu_comes_back_to_where_it_was_pressed(client: Client, olga: User) -> None:
    client.force_login(olga)
    assert client.post("/account/theme/", {"theme": "light", "next": "/pools/?q=a"})["Location"] == "/pools/?q=a"
    assert client.post("/account/theme/", {"theme": "light", "next": "//evil.example"})["Location"] == "/"
    assert User.objects.get().theme == "light"
    client.post("/account/theme/", {"theme": "pink"})
    assert User.objects.get().theme == "light"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"old_password": "wrong"}, "It is not the current one: try again."),
        ({"new_password": "short", "repeated": "short"}, "too short"),
        ({"repeated": "another-long-password"}, "The two are different."),
    ],
)
def test_password_that_cannot_be_changed_says_why_beside_the_field(
    client: Client, olga: User, change: dict[str, str], message: str
) -> None:
    client.force_login(olga)
    new = "tall-giraffe-in-the-rain-7"
    data = {"old_password": PASSWORD, "new_password": new, "repeated": new} | change
    response = client.post("/account/password/", data)
    assert response.status_code == 422
    assert any(message in error for error in _errors(response)), _errors(response)
    assert User.objects.get().check_password(PASSWORD)
    assert new not in response.content.decode()


def test_changed_password_keeps_this_session_and_ends_the_others(client: Client, olga: User) -> None:
    other = Client()
    _sign_in(client)
    _sign_in(other)
    new = "tall-giraffe-in-the-rain-7"
    client.post("/account/password/", {"old_password": PASSWORD, "new_password": new, "repeated": new})
    assert client.get("/account/").status_code == 200
    assert other.get("/account/").status_code == 302


def test_api_token_is_shown_once_and_works(client: Client, olga: User) -> None:
    client.force_login(olga)
    response = client.post("/account/tokens/", {"name": "ci", "role": "viewer", "days": "30"})
    page = Document(response.content.decode())
    text = next(e.text for e in page.all("code") if e.text.startswith("kvt1_"))
    assert "no-store" in response["Cache-Control"]
    assert not faults_of(page.source)
    assert Client().get("/api/v1/pools/", headers={"Authorization": f"Bearer {text}"}).status_code == 200
    assert text not in client.get("/account/").content.decode()
    token = ApiToken.objects.get()
    assert token.expires_at is not None
    client.post(f"/account/tokens/{token.pk}/revoke/", {})
    assert Client().get("/api/v1/pools/", headers={"Authorization": f"Bearer {text}"}).status_code == 401
    assert "revoked" in client.get("/account/").content.decode()


def test_token_cannot_be_given_more_than_its_maker_has(client: Client, olga: User) -> None:
    client.force_login(olga)
    options = {o.attrs.get("value") for o in Document(client.get("/account/").content.decode()).all("option")}
    assert "admin" not in options
    response = client.post("/account/tokens/", {"name": "ci", "role": "admin", "days": "30"})
    assert response.status_code == 422
    assert not ApiToken.objects.exists()


def test_nobody_revokes_somebody_elses_token(client: Client, olga: User, operator: Client) -> None:
    client.force_login(olga)
    client.post("/account/tokens/", {"name": "ci", "role": "viewer", "days": "0"})
    token = ApiToken.objects.get()
    assert operator.post(f"/account/tokens/{token.pk}/revoke/", {}).status_code == 404
    assert ApiToken.objects.get().revoked_at is None
    assert token.key_id not in operator.get("/account/").content.decode()


def test_times_are_shown_in_the_readers_zone(client: Client, olga: User) -> None:
    olga.time_zone = "Asia/Shanghai"
    olga.save()
    client.force_login(olga)
    client.post("/account/tokens/", {"name": "ci", "role": "viewer", "days": "7"})
    times = Document(client.get("/account/").content.decode()).all("time")
    assert times
    assert all(e.attrs["title"].endswith("CST") for e in times)


def test_new_person_gets_a_password_that_is_shown_once_and_works(admin: Client, client: Client) -> None:
    response = admin.post("/people/new/", {"username": "paul", "email": "", "role": "operator"})
    password = next(e.text for e in Document(response.content.decode()).all("code"))
    assert not faults_of(response.content.decode())
    assert "no-store" in response["Cache-Control"]
    assert client.post("/login/", {"username": "paul", "password": password})["Location"] == "/"
    assert User.objects.get(username="paul").role == Role.OPERATOR
    assert password not in admin.get("/people/").content.decode()
    taken = admin.post("/people/new/", {"username": "paul", "role": "viewer"})
    assert taken.status_code == 422
    assert any("name already" in error for error in _errors(taken))


def test_person_is_given_another_role_or_shut_out_at_once(admin: Client, client: Client, olga: User) -> None:
    _sign_in(client)
    admin.post(f"/people/{olga.pk}/", {"role": "viewer", "is_active": "on"})
    assert client.get("/pools/new/").status_code == 403
    admin.post(f"/people/{olga.pk}/", {"role": "viewer"})
    assert client.get("/pools/").status_code == 302


def test_last_admin_stays_one_and_the_page_says_why(admin: Client) -> None:
    myself = User.objects.get(role="admin")
    response = admin.post(f"/people/{myself.pk}/", {"role": "viewer", "is_active": "on"})
    assert response.status_code == 422
    assert "no admin any more" in response.content.decode()
    assert User.objects.get(pk=myself.pk).role == Role.ADMIN


def test_reset_password_is_shown_once_and_ends_the_old_one(admin: Client, client: Client, olga: User) -> None:
    response = admin.post(f"/people/{olga.pk}/reset/", {})
    password = next(e.text for e in Document(response.content.decode()).all("code"))
    assert _sign_in(client).status_code == 200, "the old one"  # type: ignore[attr-defined]
    assert _sign_in(client, password)["Location"] == "/"  # type: ignore[index]
