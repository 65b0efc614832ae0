"""API tokens."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fabric.accounts.models import ApiToken
from fabric.accounts.services import create_api_token, revoke_api_token, update_user
from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor, ActorKind, Role
from fabric.core.errors import Conflict, Invalid, NotAllowed, NotFound
from tests.fabric.people import Door, bearer_client, client_with, person

pytestmark = pytest.mark.django_db
ME = "/api/v1/me/"


def make(owner: Role = Role.OPERATOR, **options):
    user = person(owner)
    facts = {"name": "ci", "role": owner.value, "expires_at": None, **options}
    return user, create_api_token(actor=user.as_actor(), **facts)


def test_token_acts_in_its_own_name_and_role() -> None:
    user, made = make()
    body = client_with(made.text).get(ME).json()
    assert (body["kind"], body["id"], body["role"]) == ("token", str(made.token.pk), "operator")
    assert body["name"] == f"{user.username} / ci"


def test_audit_rows_name_the_token_and_not_only_its_owner() -> None:
    _, made = make()
    assert client_with(made.text).post("/api/v1/pools/", {"name": "p"}, format="json").status_code == 201
    row = AuditEntry.objects.get(object_type="pools.pool")
    assert (row.actor_kind, row.actor_id) == ("token", str(made.token.pk))


def test_only_a_digest_is_kept() -> None:
    _, made = make()
    secret = made.text.split(".")[1]
    assert made.text.startswith("kvt1_")
    assert secret not in str(ApiToken.objects.values().get())
    assert secret not in repr(made)


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
def test_token_cannot_do_more_than_its_maker(role: Role) -> None:
    with pytest.raises(NotAllowed):
        create_api_token(actor=person(Role.VIEWER).as_actor(), name="x", role=role.value, expires_at=None)
    assert not ApiToken.objects.exists()


def test_token_can_do_less_than_its_maker() -> None:
    client = bearer_client(person(Role.ADMIN), Role.VIEWER)
    assert client.get("/api/v1/pools/").status_code == 200
    assert client.post("/api/v1/pools/", {"name": "p"}, format="json").status_code == 403
    assert client.get("/api/v1/users/").status_code == 403


def test_token_loses_what_its_owner_loses(admin: Actor) -> None:
    user, made = make(Role.OPERATOR)
    update_user(actor=admin, user_id=user.pk, role="viewer")
    client = client_with(made.text)
    assert client.get(ME).json()["role"] == "viewer"
    assert client.post("/api/v1/pools/", {"name": "p"}, format="json").status_code == 403


def test_token_gains_nothing_when_its_owner_rises(admin: Actor) -> None:
    user, made = make(Role.VIEWER)
    update_user(actor=admin, user_id=user.pk, role="admin")
    assert client_with(made.text).get(ME).json()["role"] == "viewer"


def test_token_cannot_make_another() -> None:
    user, made = make()
    with pytest.raises(NotAllowed):
        create_api_token(actor=made.token.as_actor(), name="heir", role="viewer", expires_at=None)
    body = {"name": "heir", "role": "viewer"}
    assert client_with(made.text).post("/api/v1/tokens/", body, format="json").status_code == 403
    assert user.api_tokens.count() == 1


@pytest.mark.parametrize(
    "facts",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"role": "root"},
        {"expires_at": timezone.now() - timedelta(seconds=1)},
    ],
)
def test_token_that_makes_no_sense_is_refused(facts) -> None:
    with pytest.raises(Invalid):
        make(**facts)
    assert not ApiToken.objects.exists()


def test_expired_revoked_altered_and_unknown_tokens_get_one_answer() -> None:
    user, good = make()
    _, revoked = make()
    _, expired = make(expires_at=timezone.now() + timedelta(hours=1))
    revoke_api_token(actor=revoked.token.user.as_actor(), token_id=revoked.token.pk)
    ApiToken.objects.filter(pk=expired.token.pk).update(expires_at=timezone.now())
    head, secret = good.text.split(".")
    texts = [
        revoked.text,
        expired.text,
        f"{head}.{'x' * 43}",
        f"kvt1_unknown1234.{secret}",
        good.text[:-1],
        good.text + "x",
        good.text.upper(),
        good.text.replace("kvt1", "kva1"),
        "kvt1_.",
        "é" * 50,
    ]
    answers = {client_with(text.encode().decode("latin-1")).get(ME).content for text in texts}
    assert len(answers) == 1
    assert client_with(good.text).get(ME).status_code == 200
    assert user.api_tokens.get().last_used_at is not None


@pytest.mark.parametrize("header", ["", "Basic abc", "Bearer", "Token x", "bearer  "])
def test_header_that_is_no_bearer_token_is_401(header: str) -> None:
    assert Door(headers={"authorization": header}).get(ME).status_code == 401


def test_last_use_is_written_at_most_once_a_minute() -> None:
    _, made = make()
    client = client_with(made.text)
    client.get(ME)
    first = ApiToken.objects.get(pk=made.token.pk).last_used_at
    client.get(ME)
    assert ApiToken.objects.get(pk=made.token.pk).last_used_at == first
    ApiToken.objects.filter(pk=made.token.pk).update(last_used_at=first - timedelta(seconds=61))
    client.get(ME)
    assert ApiToken.objects.get(pk=made.token.pk).last_used_at > first


def test_revoking_is_for_the_owner_and_admins_and_once(admin: Actor) -> None:
    user, made = make(Role.VIEWER)
    with pytest.raises(NotFound):
        revoke_api_token(actor=person(Role.OPERATOR).as_actor(), token_id=made.token.pk)
    revoke_api_token(actor=user.as_actor(), token_id=made.token.pk)
    with pytest.raises(Conflict):
        revoke_api_token(actor=admin, token_id=made.token.pk)
    _, other = make(Role.VIEWER)
    revoke_api_token(actor=admin, token_id=other.token.pk, reason="leaked")
    assert AuditEntry.objects.get(verb="revoke", object_id=str(other.token.pk)).reason == "leaked"


def test_token_may_revoke_itself() -> None:
    _, made = make()
    client = client_with(made.text)
    assert client.post(f"/api/v1/tokens/{made.token.pk}/revoke/", {}, format="json").status_code == 200
    assert client.get(ME).status_code == 401


def test_people_see_their_own_tokens_and_admins_all() -> None:
    _, mine = make(Role.VIEWER)
    _, foreign = make(Role.VIEWER)
    listed = client_with(mine.text).get("/api/v1/tokens/").json()
    assert [row["id"] for row in listed["results"]] == [str(mine.token.pk)]
    assert client_with(mine.text).get(f"/api/v1/tokens/{foreign.token.pk}/").status_code == 404
    assert client_with(mine.text).post(f"/api/v1/tokens/{foreign.token.pk}/revoke/").status_code == 404
    assert bearer_client(person(Role.ADMIN)).get("/api/v1/tokens/").json()["count"] == 3


def test_actor_of_no_known_kind_sees_nobodys_tokens() -> None:
    make()
    from fabric.accounts.selectors import api_tokens_for_list, users_for_list

    agent = Actor(ActorKind.AGENT, "x", "x", Role.VIEWER)
    assert not api_tokens_for_list(agent).exists()
    assert not users_for_list(agent).exists()
