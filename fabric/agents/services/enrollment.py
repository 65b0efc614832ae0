"""How an agent joins: a nonce, then the join token's secret with a signature over the nonce by the agent's own key."""

import ipaddress
import logging
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from agent.protocol import (
    ChallengeReply,
    ChallengeRequest,
    EnrollReply,
    EnrollRequest,
    Refusal,
    enroll_payload,
    verify,
)
from fabric.agents.models import Agent, AgentState, JoinToken
from fabric.agents.services.access import drop_access_tokens, identity_reply
from fabric.agents.services.addresses import checked_addresses
from fabric.agents.services.challenges import make_challenge, use_challenge
from fabric.agents.services.refusals import Refused
from fabric.audit.services import record
from fabric.core.actor import Actor, ActorKind, Role
from fabric.core.crypto import verify_token
from fabric.inventory.domain import clean_serial, clean_text

logger = logging.getLogger(__name__)

MAX_NAME_CHARS = 100
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The agent, and what it is answered."""

    agent: Agent
    reply: EnrollReply


def challenge_enrollment(*, request: ChallengeRequest) -> ChallengeReply:
    """Return a nonce for this token and key. The token is not looked at: without its secret nobody learns its state."""
    nonce = make_challenge(purpose="enroll", subject=_subject(request.token_id, request.public_key))
    return ChallengeReply(nonce=nonce, server_time_s=timezone.now().timestamp())


def enroll_agent(*, request: EnrollRequest, address: str) -> Enrolled:
    """Make an agent, or answer again to the one which proves the same key.

    The agent is `pending` where the token asks for approval, `denied` where its serial number is enrolled under
    another key, else `active`. What it should run is given to it by whoever watches the pool's members (rollouts).

    The same key with the same token is an agent that lost our answer: it gets its identity again and the token is
    not consumed twice.

    Raises:
        Refused: with the reason; nothing was made and the token was not consumed.
        Invalid: addresses that cannot be used.
    """
    use_challenge(purpose="enroll", subject=_subject(request.token_id, request.public_key), nonce=request.nonce)
    proof = enroll_payload(nonce=request.nonce, token_id=request.token_id, public_key=request.public_key)
    if not verify(request.public_key, proof, request.signature):
        raise Refused(Refusal.CHALLENGE)
    token = _known_token(request)
    serial = clean_serial(request.serial)
    _require_scope(token, serial, address)
    checked_addresses(request.manage_url, request.data_url, peer=address)
    for attempt in range(ATTEMPTS):
        try:
            with transaction.atomic():
                return _admit(request, token, serial)
        except IntegrityError:  # another agent took the name, key or serial number at the same moment: look again
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def agent_actor(agent: Agent) -> Actor:
    """Return the agent as the one who acts. Its role is the lowest: what it may do, its own endpoints say."""
    return Actor(ActorKind.AGENT, str(agent.pk), agent.name, Role.VIEWER)


def _subject(token_id: str, public_key: str) -> str:
    return f"{token_id}:{public_key}"


def _known_token(request: EnrollRequest) -> JoinToken:
    """Return the token that the secret belongs to, if it still stands. An unknown id and a wrong secret look the
    same.
    """
    token = JoinToken.objects.select_related("pool").filter(token_id=request.token_id).first()
    genuine = verify_token(request.token_secret, token.digest if token else None, token.pepper_id if token else None)
    if token is None or not genuine:
        raise Refused(Refusal.TOKEN_UNKNOWN)
    if token.revoked_at is not None:
        raise Refused(Refusal.TOKEN_REVOKED)
    if token.expires_at <= timezone.now():
        raise Refused(Refusal.TOKEN_EXPIRED)
    return token


def _require_scope(token: JoinToken, serial: str, address: str) -> None:
    if token.expected_serial and token.expected_serial.casefold() != serial.casefold():
        raise Refused(Refusal.TOKEN_SCOPE)
    if token.allowed_cidr:
        try:
            inside = _plain_address(address) in ipaddress.ip_network(token.allowed_cidr)
        except ValueError:  # the peer has no address that we know
            inside = False
        if not inside:
            raise Refused(Refusal.TOKEN_SCOPE)


def _plain_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def _admit(request: EnrollRequest, token: JoinToken, serial: str) -> Enrolled:
    # Enrolments with one token queue here, so that a machine which knocks twice at once finds itself the second time.
    if JoinToken.objects.select_for_update(of=("self",)).filter(pk=token.pk).first() is None:
        raise Refused(Refusal.TOKEN_UNKNOWN)
    now = timezone.now()
    known = Agent.objects.select_for_update(of=("self",)).filter(public_key=request.public_key)
    agent = known.exclude(state=AgentState.REVOKED).first()
    if agent is None:
        _consume(token, now)
        agent = _make_agent(request, token, serial)
    else:
        _answer_again(agent, request, token, now)
    return Enrolled(agent, identity_reply(agent, now))


def _consume(token: JoinToken, now: datetime) -> None:
    """Take one use of the token: one conditional update, so that two agents can never share the last one."""
    taken = JoinToken.objects.filter(pk=token.pk, uses__lt=F("max_uses"), expires_at__gt=now, revoked_at=None).update(
        uses=F("uses") + 1, updated_at=now
    )
    if taken != 1:
        token.refresh_from_db()
        if token.revoked_at is not None:
            raise Refused(Refusal.TOKEN_REVOKED)
        raise Refused(Refusal.TOKEN_EXPIRED if token.expires_at <= now else Refusal.TOKEN_USED)


def _make_agent(request: EnrollRequest, token: JoinToken, serial: str) -> Agent:
    twin = _enrolled_with_serial(serial)
    state = AgentState.DENIED if twin else AgentState.PENDING if token.needs_approval else AgentState.ACTIVE
    agent = Agent(
        id=uuid4(),
        pool=token.pool,
        join_token=token,
        state=state.value,
        public_key=request.public_key,
        serial=serial,
        **_reported(request),
    )
    agent.name = _free_name(agent)
    agent.save(force_insert=True)
    after = {"state": agent.state, "pool": token.pool.name if token.pool else None, "join_token": token.token_id}
    record(actor=agent_actor(agent), verb="enroll", obj=agent, before={}, after=after)
    if twin:
        reason = f"serial number {serial} is enrolled as agent {twin.name} under another key"
        record(actor=agent_actor(agent), verb="deny", obj=agent, before={}, after={"state": state}, reason=reason)
        logger.warning("agents.agent.denied agent=%s twin=%s", agent.pk, twin.pk)
    logger.info("agents.agent.enrolled agent=%s state=%s token=%s", agent.pk, agent.state, token.token_id)
    return agent


def _answer_again(agent: Agent, request: EnrollRequest, token: JoinToken, now: datetime) -> None:
    """Give the holder of a key that we know its identity anew, and end the tokens it had."""
    if agent.state == AgentState.LOCKED:
        raise Refused(Refusal.AGENT_LOCKED)
    if agent.join_token_id != token.pk:
        _consume(token, now)
    before = {"join_seq": agent.join_seq, "join_token": agent.join_token.token_id if agent.join_token else None}
    for name, value in _reported(request).items():
        setattr(agent, name, value)
    agent.join_seq += 1
    agent.cred_epoch += 1
    agent.join_token = token
    agent.save(update_fields=[*_reported(request), "join_seq", "cred_epoch", "join_token", "updated_at"])
    drop_access_tokens(agent)
    after = {"join_seq": agent.join_seq, "join_token": token.token_id}
    record(actor=agent_actor(agent), verb="enroll", obj=agent, before=before, after=after, reason="same key again")


def _reported(request: EnrollRequest) -> dict[str, object]:
    return {
        "hostname": clean_text(request.hostname, 255) or "unnamed host",
        "agent_version": clean_text(request.version, 64),
        "manage_url": request.manage_url,
        "data_url": request.data_url,
        "capabilities": request.capabilities.model_dump(mode="json"),
    }


def _enrolled_with_serial(serial: str) -> Agent | None:
    if not serial:
        return None
    states = [AgentState.ACTIVE, AgentState.LOCKED, AgentState.PENDING]
    return Agent.objects.filter(serial=serial, state__in=states).order_by("created_at").first()


def _free_name(agent: Agent) -> str:
    """Return the host's name, with the beginning of the agent's id where another agent has it."""
    name = agent.hostname[:MAX_NAME_CHARS]
    if not Agent.objects.filter(name=name).exists():
        return name
    return f"{name[: MAX_NAME_CHARS - 9]}-{str(agent.pk)[:8]}"
