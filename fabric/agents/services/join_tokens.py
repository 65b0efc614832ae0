"""Join tokens: permission to enrol. The text is shown once; an HMAC of its secret is kept."""

import ipaddress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from fabric.agents.domain import JOIN_TOKEN_LIFE, JOIN_TOKEN_PREFIX, MAX_JOIN_TOKEN_LIFE, MAX_JOIN_TOKEN_USES
from fabric.agents.models import JoinToken
from fabric.audit.services import record
from fabric.core.actor import Actor, Role
from fabric.core.checks import checked_line
from fabric.core.crypto import mint_token
from fabric.core.errors import Conflict, Invalid, NotAllowed, NotFound, Problem
from fabric.pools.models import Pool

TOKEN_ID_CHARS = 8


@dataclass(frozen=True, slots=True)
class MintedJoinToken:
    """A new join token and the only copy of its text."""

    token: JoinToken
    text: str = field(repr=False)


def create_join_token(
    *,
    actor: Actor,
    name: str,
    pool_id: UUID | None = None,
    expected_serial: str = "",
    allowed_cidr: str = "",
    max_uses: int = 1,
    needs_approval: bool = False,
    life: timedelta = JOIN_TOKEN_LIFE,
) -> MintedJoinToken:
    """Make a join token. One that may be used more than once always needs approval of each agent.

    Raises:
        NotAllowed, Invalid (name, pool, network, number of uses, or a life above 24 h).
    """
    if not actor.may(Role.OPERATOR):
        raise NotAllowed(f"{actor.name} may not make join tokens: that needs the operator role.")
    facts = _checked(name, pool_id, expected_serial, allowed_cidr, max_uses, life)
    facts["needs_approval"] = needs_approval or max_uses > 1
    minted = mint_token(JOIN_TOKEN_PREFIX, key_id_chars=TOKEN_ID_CHARS)
    with transaction.atomic():
        token = JoinToken.objects.create(
            token_id=minted.key_id, digest=minted.digest, pepper_id=minted.pepper_id, created_by=actor.name, **facts
        )
        record(actor=actor, verb="create", obj=token, before={}, after=facts)
    return MintedJoinToken(token, minted.text)


def revoke_join_token(*, actor: Actor, token_id: UUID, reason: str = "") -> JoinToken:
    """End a join token; agents that joined with it stay. Raises `NotAllowed`, `NotFound`, `Conflict` (revoked
    before).
    """
    if not actor.may(Role.OPERATOR):
        raise NotAllowed(f"{actor.name} may not revoke join tokens: that needs the operator role.")
    with transaction.atomic():
        token = JoinToken.objects.select_for_update(of=("self",)).filter(pk=token_id).first()
        if token is None:
            raise NotFound("There is no such join token.")
        if token.revoked_at is not None:
            raise Conflict("The join token is revoked already.")
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at", "updated_at"])
        after = {"revoked_at": token.revoked_at}
        record(actor=actor, verb="revoke", obj=token, before={"revoked_at": None}, after=after, reason=reason)
    return token


def _checked(
    name: str, pool_id: UUID | None, expected_serial: str, allowed_cidr: str, max_uses: int, life: timedelta
) -> dict[str, Any]:
    problems: list[Problem] = []
    facts = {
        "name": checked_line(name, "name", problems),
        "pool_id": pool_id,
        "expected_serial": checked_line(expected_serial, "expected_serial", problems, max_chars=255, required=False),
        "allowed_cidr": _checked_cidr(allowed_cidr, problems),
        "max_uses": max_uses,
        "expires_at": timezone.now() + life,
    }
    if pool_id is not None and not Pool.objects.filter(pk=pool_id).exists():
        problems.append(Problem("pool", "there is no such pool", "choose one that exists, or none"))
    if not 1 <= max_uses <= MAX_JOIN_TOKEN_USES:
        problems.append(Problem("max_uses", "it is out of range", f"give 1 to {MAX_JOIN_TOKEN_USES}"))
    if not timedelta(minutes=1) <= life <= MAX_JOIN_TOKEN_LIFE:
        problems.append(Problem("life", "it is out of range", "give 1 minute to 24 hours"))
    if problems:
        raise Invalid("The join token cannot be made like this.", problems)
    return facts


def _checked_cidr(text: str, problems: list[Problem]) -> str:
    text = text.strip()
    if not text:
        return ""
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        problems.append(Problem("allowed_cidr", "it is not a network", "give one such as 10.20.0.0/16 or fd00::/8"))
    return text
