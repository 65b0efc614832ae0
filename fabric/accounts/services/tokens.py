"""API tokens: `kvt1_<key id>.<secret>`. The secret is shown once; role and expiry never change after birth."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from fabric.accounts.domain import API_TOKEN_PREFIX, LAST_USED_STEP, ROLES
from fabric.accounts.models import ApiToken, User
from fabric.audit.services import record
from fabric.core.actor import Actor, ActorKind, Role
from fabric.core.checks import checked_line
from fabric.core.crypto import mint_token
from fabric.core.errors import Conflict, Invalid, NotAllowed, NotFound, Problem


@dataclass(frozen=True, slots=True)
class MintedApiToken:
    """A new token and the only copy of its text."""

    token: ApiToken
    text: str = field(repr=False)


def create_api_token(*, actor: Actor, name: str, role: str, expires_at: datetime | None) -> MintedApiToken:
    """Make a token of one's own; its text is returned only here. `expires_at=None` never expires.

    Raises:
        NotAllowed: a token asks for another (it could outlive its own expiry so), or the role exceeds the maker's.
        Invalid: name, role or expiry cannot be used.
    """
    if actor.kind is not ActorKind.USER:
        raise NotAllowed("Only a person who has signed in can make a token.")
    problems: list[Problem] = []
    name = checked_line(name, "name", problems)
    if role not in ROLES:
        problems.append(Problem("role", "it is unknown", f"there are: {', '.join(ROLES)}"))
    if expires_at is not None and expires_at <= timezone.now():
        problems.append(Problem("expires_at", "it is in the past", "give a later time"))
    if problems:
        raise Invalid("The token cannot be made like this.", problems)
    if not actor.may(Role(role)):
        raise NotAllowed(f"A token cannot do more than its maker: {actor.name} is {actor.role}, not {role}.")
    minted = mint_token(API_TOKEN_PREFIX)
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=User.objects.get(pk=actor.id),
            name=name,
            key_id=minted.key_id,
            digest=minted.digest,
            pepper_id=minted.pepper_id,
            role=role,
            expires_at=expires_at,
        )
        after = {"name": name, "role": role, "expires_at": expires_at}
        record(actor=actor, verb="create", obj=token, before={}, after=after)
    return MintedApiToken(token, minted.text)


def revoke_api_token(*, actor: Actor, token_id: UUID, reason: str = "") -> ApiToken:
    """End a token for good: one's own, or any for admins. Raises `NotFound`, `Conflict` (revoked before)."""
    with transaction.atomic():
        token = ApiToken.objects.select_for_update(of=("self",)).select_related("user").filter(pk=token_id).first()
        own = token is not None and (str(token.user_id) == actor.id or str(token.pk) == actor.id)
        if token is None or not (own or actor.may(Role.ADMIN)):
            raise NotFound("There is no such token, or none that you may see.")
        if token.revoked_at is not None:
            raise Conflict("The token is revoked already.")
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at", "updated_at"])
        after = {"revoked_at": token.revoked_at}
        record(actor=actor, verb="revoke", obj=token, before={"revoked_at": None}, after=after, reason=reason)
    return token


def note_token_use(*, token_id: UUID, now: datetime) -> None:
    """Note that a token was used, at most once a minute: a busy client costs one row update a minute, not one a
    call.
    """
    due = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_STEP)
    ApiToken.objects.filter(due, pk=token_id).update(last_used_at=now)
