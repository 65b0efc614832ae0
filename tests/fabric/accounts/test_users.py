"""People: first admin, roles, passwords."""

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
import redis
from django.contrib.auth import authenticate

from fabric.accounts import services
from fabric.accounts.login import forget_login_attempts, register_login_attempt
from fabric.accounts.models import User
from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor, Role
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound, TooManyAttempts
from fabric.core.events import CONTROL_CHANNEL
from tests.fabric.people import bearer_client, person

PASSWORD = "correct horse battery"


@pytest.mark.django_db
def test_first_start_makes_one_admin_with_a_long_password_that_lets_in() -> None:
    password = services.ensure_admin()
    assert password is not None
    assert len(password) >= 20
    user = authenticate(username="admin", password=password)
    assert isinstance(user, User)
    assert (user.role, user.is_active) == (Role.ADMIN, True)
    assert user.password.startswith("argon2")


@pytest.mark.django_db
def test_second_start_changes_nothing() -> None:
    services.ensure_admin()
    before = list(User.objects.values())
    assert services.ensure_admin() is None
    assert list(User.objects.values()) == before


@pytest.mark.django_db
def test_where_anybody_is_there_is_no_default_admin() -> None:
    person(Role.VIEWER)
    assert services.ensure_admin() is None
    assert not User.objects.filter(username="admin").exists()


@pytest.mark.django_db
def test_two_first_starts_make_two_different_passwords() -> None:
    first = services.ensure_admin()
    User.objects.all().delete()
    assert services.ensure_admin() != first


@pytest.mark.django_db
def test_admin_makes_people_and_sees_a_generated_password_once(admin: Actor) -> None:
    user, password = services.create_user(actor=admin, username=" olga ", role="operator")
    assert (user.username, user.role, user.is_staff) == ("olga", "operator", False)
    assert authenticate(username="olga", password=password) == user
    assert not AuditEntry.objects.filter(after__icontains=password).exists()


@pytest.mark.django_db
def test_chosen_password_is_kept_and_not_returned(admin: Actor) -> None:
    user, password = services.create_user(actor=admin, username="olga", role="viewer", password=PASSWORD)
    assert password is None
    assert authenticate(username="olga", password=PASSWORD) == user


@pytest.mark.django_db
@pytest.mark.parametrize("password", ["", "short", "password1234", "x" * 1001])
def test_weak_password_is_refused(admin: Actor, password: str) -> None:
    with pytest.raises(Invalid) as refused:
        services.create_user(actor=admin, username="olga", role="viewer", password=password)
    assert refused.value.problems[0].field == "password"
    assert not User.objects.filter(username="olga").exists()


@pytest.mark.django_db
@pytest.mark.parametrize("username", ["", " ", "a b", "<script>", "a\x00", "x" * 151])
def test_username_that_cannot_be_one_is_refused(admin: Actor, username: str) -> None:
    with pytest.raises(Invalid):
        services.create_user(actor=admin, username=username, role="viewer")


@pytest.mark.django_db
def test_taken_name_and_unknown_role_are_refused(admin: Actor) -> None:
    services.create_user(actor=admin, username="olga", role="viewer", password=PASSWORD)
    with pytest.raises(Conflict):
        services.create_user(actor=admin, username="olga", role="viewer", password=PASSWORD)
    with pytest.raises(Invalid):
        services.create_user(actor=admin, username="peter", role="root", password=PASSWORD)


@pytest.mark.django_db
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_admins_manage_people(role: Role) -> None:
    actor, victim = person(role).as_actor(), person(Role.VIEWER)
    for call in (
        lambda: services.create_user(actor=actor, username="x", role="admin"),
        lambda: services.update_user(actor=actor, user_id=victim.pk, role="admin"),
        lambda: services.reset_password(actor=actor, user_id=victim.pk),
    ):
        with pytest.raises(NotAllowed):
            call()
    victim.refresh_from_db()
    assert victim.role == Role.VIEWER


@pytest.mark.django_db
def test_last_active_admin_can_neither_be_demoted_nor_shut_out(admin: Actor) -> None:
    me = User.objects.get(pk=admin.id)
    person(Role.OPERATOR)
    for changes in ({"role": "viewer"}, {"is_active": False}):
        with pytest.raises(Blocked):
            services.update_user(actor=admin, user_id=me.pk, **changes)
    other = person(Role.ADMIN)
    assert services.update_user(actor=admin, user_id=other.pk, role="viewer").role == "viewer"


@pytest.mark.django_db
def test_promotion_and_demotion_move_the_site_admins_flags(admin: Actor) -> None:
    user = person(Role.VIEWER)
    assert services.update_user(actor=admin, user_id=user.pk, role="admin").is_staff
    demoted = services.update_user(actor=admin, user_id=user.pk, role="operator")
    assert (demoted.is_staff, demoted.is_superuser) == (False, False)


@pytest.mark.django_db
def test_unknown_person_is_not_found(admin: Actor) -> None:
    with pytest.raises(NotFound):
        services.update_user(actor=admin, user_id=uuid4(), role="viewer")


@pytest.mark.django_db
def test_own_password_needs_the_old_one(admin: Actor) -> None:
    user, password = services.create_user(actor=admin, username="olga", role="viewer")
    me = user.as_actor()
    with pytest.raises(Invalid) as refused:
        services.change_password(actor=me, old_password="wrong", new_password=PASSWORD)
    assert refused.value.problems[0].field == "old_password"
    with pytest.raises(Invalid) as refused:
        services.change_password(actor=me, old_password=password, new_password="short")
    assert refused.value.problems[0].field == "new_password"
    services.change_password(actor=me, old_password=password, new_password=PASSWORD)
    assert authenticate(username="olga", password=PASSWORD) == user
    assert authenticate(username="olga", password=password) is None


@pytest.mark.django_db
def test_guessing_the_old_password_is_braked(admin: Actor) -> None:
    user, _ = services.create_user(actor=admin, username="olga", role="viewer", password=PASSWORD)
    for _ in range(5):
        with pytest.raises(Invalid):
            services.change_password(actor=user.as_actor(), old_password="wrong", new_password=PASSWORD)
    with pytest.raises(TooManyAttempts):
        services.change_password(actor=user.as_actor(), old_password=PASSWORD, new_password=PASSWORD + "!")


@pytest.mark.django_db
def test_other_sessions_end_with_the_password(signed_in, admin: Actor) -> None:
    user, password = services.create_user(actor=admin, username="olga", role="viewer")
    client = signed_in(user)
    assert client.get("/api/v1/me/").status_code == 200
    services.change_password(actor=user.as_actor(), old_password=password, new_password=PASSWORD)
    assert client.get("/api/v1/me/").status_code == 401


@pytest.mark.django_db
def test_shut_out_person_loses_session_and_tokens_at_once(signed_in, admin: Actor) -> None:
    user = person(Role.OPERATOR)
    session, token = signed_in(user), bearer_client(user)
    services.update_user(actor=admin, user_id=user.pk, is_active=False)
    assert session.get("/api/v1/me/").status_code == 401
    assert token.get("/api/v1/me/").status_code == 401


@pytest.mark.django_db
def test_preferences_are_checked_and_ones_own() -> None:
    user = person(Role.VIEWER)
    services.update_preferences(actor=user.as_actor(), time_zone="Asia/Shanghai", theme="dark")
    user.refresh_from_db()
    assert (user.time_zone, user.theme) == ("Asia/Shanghai", "dark")
    for changes in ({"time_zone": "Mars/Olympus"}, {"theme": "neon"}, {"time_zone": "../../etc/passwd"}):
        with pytest.raises(Invalid):
            services.update_preferences(actor=user.as_actor(), **changes)


@pytest.mark.django_db(transaction=True)
def test_live_streams_are_told_when_a_person_changes(redis_at_hand: str) -> None:
    admin, user = person(Role.ADMIN).as_actor(), person(Role.OPERATOR)
    with redis.Redis.from_url(redis_at_hand) as client, client.pubsub() as listener:
        listener.subscribe(CONTROL_CHANNEL)
        listener.get_message(timeout=2)
        services.update_user(actor=admin, user_id=user.pk, role="viewer")
        services.reset_password(actor=admin, user_id=user.pk)
        seen = [json.loads(listener.get_message(timeout=2)["data"]) for _ in range(2)]
    assert [(m["type"], m["user_id"]) for m in seen] == [
        ("user.changed", str(user.pk)),
        ("session.revoked", str(user.pk)),
    ]


def test_login_attempts_are_braked_by_address_and_by_name() -> None:
    waits = [register_login_attempt(username=f"user{n}", address="192.0.2.1") for n in range(11)]
    assert waits[:10] == [0] * 10
    assert waits[10] > 0
    waits = [register_login_attempt(username="Olga", address=f"192.0.2.{n}") for n in range(2, 33)]
    assert waits[:30] == [0] * 30
    assert waits[30] > 0
    assert register_login_attempt(username="OLGA", address="198.51.100.1") > 0
    forget_login_attempts(username="olga", address="198.51.100.1")
    assert register_login_attempt(username="olga", address="198.51.100.1") == 0


def test_parallel_login_attempts_are_all_counted() -> None:
    with ThreadPoolExecutor(16) as pool:
        waits = list(pool.map(lambda _: register_login_attempt(username="x", address="192.0.2.1"), range(64)))
    assert waits.count(0) == 10
