"""People: made by admins, changed by admins, except for what is theirs alone."""

import secrets
import string
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from fabric.accounts.domain import GENERATED_PASSWORD_CHARS, LOGIN_WINDOW_S, PASSWORD_ATTEMPTS, ROLES
from fabric.accounts.models import User
from fabric.audit.services import record
from fabric.core.actor import SYSTEM, Actor, ActorKind, Role
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound, Problem, TooManyAttempts
from fabric.core.events import publish_control
from fabric.core.ratelimit import register_attempt

_PASSWORD_ALPHABET = string.ascii_letters + string.digits
FIRST_ADMIN = "admin"


def ensure_admin(*, username: str = FIRST_ADMIN) -> str | None:
    """Make the first admin where there is no user at all, and return its generated password; else change nothing, None.

    The password is returned only here and kept only as an Argon2 hash.
    """
    if User.objects.exists():
        return None
    password = _generated_password()
    try:
        with transaction.atomic():
            user = _new_user(username, Role.ADMIN, password, email="", is_staff=True, is_superuser=True)
            after = {"username": username, "role": Role.ADMIN.value}
            record(actor=SYSTEM, verb="create", obj=user, before={}, after=after, reason="first start")
    except IntegrityError:  # another process was faster: its caller got the password
        return None
    return password


def create_user(
    *, actor: Actor, username: str, role: str, password: str | None = None, email: str = ""
) -> tuple[User, str | None]:
    """Make a person; return them, and the password where it was generated (None given). Admins only.

    Raises:
        NotAllowed, Invalid (name, role, e-mail address or password), Conflict (name taken).
    """
    _require_admin(actor)
    generated = None if password is not None else _generated_password()
    chosen = generated if password is None else password
    role = _checked_role(role)
    try:
        with transaction.atomic():
            user = _new_user(username, role, chosen or "", email=email)
            record(actor=actor, verb="create", obj=user, before={}, after={"username": user.username, "role": role})
    except IntegrityError:
        problem = Problem("username", "somebody has this name already", "choose another name")
        raise Conflict(f"There is a user {username!r} already.", [problem]) from None
    return user, generated


def update_user(*, actor: Actor, user_id: UUID, role: str | None = None, is_active: bool | None = None) -> User:
    """Change a person's role, or let them in or not; None keeps it. Admins only. The last active admin stays one.

    Raises:
        NotAllowed, NotFound, Invalid, Blocked (it would leave no active admin).
    """
    _require_admin(actor)
    with transaction.atomic():
        admins = list(User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True).order_by("pk"))
        user = _locked(user_id)
        before = {"role": user.role, "is_active": user.is_active}
        user.role = user.role if role is None else _checked_role(role)
        user.is_active = user.is_active if is_active is None else is_active
        after = {"role": user.role, "is_active": user.is_active}
        if after == before:
            return user
        stays_admin = user.role == Role.ADMIN and user.is_active
        if not stays_admin and [admin.pk for admin in admins] == [user.pk]:
            problem = Problem("role", "they are the last active admin", "make somebody else an admin first")
            raise Blocked("The fabric would have no admin any more.", [problem])
        user.is_staff = user.is_superuser = user.role == Role.ADMIN
        user.save(update_fields=["role", "is_active", "is_staff", "is_superuser"])
        record(actor=actor, verb="update", obj=user, before=before, after=after)
        publish_control("user.changed", user_id=str(user.pk))
    return user


def change_password(*, actor: Actor, old_password: str, new_password: str) -> User:
    """Change one's own password. All other sessions end (their authentication hash no longer matches).

    Raises:
        NotAllowed: a token asks; passwords are people's.
        TooManyAttempts: guessed too often.
        Invalid: the old password is wrong, or the new one too weak.
    """
    if actor.kind is not ActorKind.USER:
        raise NotAllowed("Only a person who has signed in can change a password.")
    wait_s = register_attempt("password", actor.id, limit=PASSWORD_ATTEMPTS, window_s=LOGIN_WINDOW_S)
    if wait_s:
        raise TooManyAttempts("Too many attempts to change this password.", wait_s)
    with transaction.atomic():
        user = _locked(UUID(actor.id))
        if not user.check_password(old_password):
            raise Invalid(
                "The old password is wrong.", [Problem("old_password", "it is not the current one", "try again")]
            )
        _set_password(user, new_password, "new_password")
        record(actor=actor, verb="change_password", obj=user, before={}, after={})
        publish_control("session.revoked", user_id=str(user.pk))
    return user


def reset_password(*, actor: Actor, user_id: UUID) -> str:
    """Give a person a generated password and return it; all their sessions end. Admins only."""
    _require_admin(actor)
    password = _generated_password()
    with transaction.atomic():
        user = _locked(user_id)
        _set_password(user, password, "password")
        record(actor=actor, verb="reset_password", obj=user, before={}, after={})
        publish_control("session.revoked", user_id=str(user.pk))
    return password


def update_preferences(*, actor: Actor, time_zone: str | None = None, theme: str | None = None) -> User:
    """Change one's own time zone (an IANA name; empty: the site's) or theme; None keeps it."""
    if actor.kind is not ActorKind.USER:
        raise NotAllowed("Only a person who has signed in has preferences.")
    problems = []
    if time_zone and time_zone not in available_timezones():
        problems.append(Problem("time_zone", "there is no such time zone", "give an IANA name such as Europe/Berlin"))
    themes = [value for value, _ in User._meta.get_field("theme").choices or ()]
    if theme is not None and theme not in themes:
        problems.append(Problem("theme", "there is no such theme", f"there are: {', '.join(map(str, themes))}"))
    if problems:
        raise Invalid("These preferences cannot be kept.", problems)
    with transaction.atomic():
        user = _locked(UUID(actor.id))
        user.time_zone = user.time_zone if time_zone is None else time_zone
        user.theme = user.theme if theme is None else theme
        user.save(update_fields=["time_zone", "theme"])
    return user


def _new_user(username: str, role: str, password: str, *, email: str, **flags: bool) -> User:
    user = User(username=User.normalize_username(username.strip()), email=email.strip(), role=role, **flags)
    if role == Role.ADMIN:
        user.is_staff = user.is_superuser = True
    _check_password(user, password, "password")
    user.set_password(password)
    try:
        user.clean_fields()
    except ValidationError as error:
        problems = [Problem(field, " ".join(texts)) for field, texts in error.message_dict.items()]
        raise Invalid("The user cannot be stored like this.", problems) from None
    user.save(force_insert=True)
    return user


def _set_password(user: User, password: str, field: str) -> None:
    _check_password(user, password, field)
    user.set_password(password)
    user.save(update_fields=["password"])


def _check_password(user: User, password: str, field: str) -> None:
    if len(password) > 1000:
        raise Invalid("The password is too long.", [Problem(field, "it is too long", "give at most 1000 characters")])
    try:
        validate_password(password, user)
    except ValidationError as error:
        problems = [Problem(field, text, "choose a longer or less common one") for text in error.messages]
        raise Invalid("The password is too weak.", problems) from None


def _locked(user_id: UUID) -> User:
    user = User.objects.select_for_update().filter(pk=user_id).first()
    if user is None:
        raise NotFound("There is no such user.")
    return user


def _checked_role(role: Any) -> str:
    if role not in ROLES:
        raise Invalid("There is no such role.", [Problem("role", "it is unknown", f"there are: {', '.join(ROLES)}")])
    return str(role)


def _require_admin(actor: Actor) -> None:
    if not actor.may(Role.ADMIN):
        raise NotAllowed(f"{actor.name} may not manage people: that needs the admin role.")


def _generated_password() -> str:
    return "".join(secrets.choice(_PASSWORD_ALPHABET) for _ in range(GENERATED_PASSWORD_CHARS))
