"""How an agent recovers when its access token has expired: by its key and the join sequence, which only ever grows.

A copied state directory holds the same key. Whoever of the two recovers second presents a sequence that is no
longer the current one: then both are locked, since nobody here can tell which of them is the thief.
"""

import logging
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agent.protocol import (
    ChallengeReply,
    EnrollReply,
    Refusal,
    RejoinChallengeRequest,
    RejoinRequest,
    rejoin_payload,
    verify,
)
from fabric.agents.domain import MAX_REJOINS_PER_DAY
from fabric.agents.models import AccessToken, Agent, AgentState
from fabric.agents.services.access import drop_access_tokens, identity_reply
from fabric.agents.services.challenges import make_challenge, use_challenge
from fabric.agents.services.enrollment import agent_actor
from fabric.agents.services.refusals import Refused, require_active
from fabric.audit.selectors import audit_entries_for_object
from fabric.audit.services import record
from fabric.core.actor import SYSTEM
from fabric.core.errors import TooManyAttempts

logger = logging.getLogger(__name__)

DAY = timedelta(hours=24)
RETRY_AFTER_S = 900


def challenge_rejoin(*, request: RejoinChallengeRequest) -> ChallengeReply:
    """Return a nonce for this agent id, whether or not there is such an agent. Raises `Refused` where it is no id
    at all.
    """
    nonce = make_challenge(purpose="rejoin", subject=str(_agent_id(request.agent_id)))
    return ChallengeReply(nonce=nonce, server_time_s=timezone.now().timestamp())


def rejoin_agent(*, request: RejoinRequest) -> EnrollReply:
    """Return a new access token and the next join sequence to the agent that proves its key.

    Raises:
        Refused: nonce or signature (challenge), no such agent, its trust state, or a stale sequence, which locks it.
        TooManyAttempts: more than three recoveries in 24 h.
    """
    agent_id = _agent_id(request.agent_id)
    use_challenge(purpose="rejoin", subject=str(agent_id), nonce=request.nonce)
    with transaction.atomic():
        agent = Agent.objects.select_for_update(of=("self",)).filter(pk=agent_id).first()
        if agent is None:
            raise Refused(Refusal.AGENT_UNKNOWN)
        proof = rejoin_payload(agent_id=request.agent_id, nonce=request.nonce, join_seq=request.join_seq)
        if not verify(agent.public_key, proof, request.signature):
            raise Refused(Refusal.CHALLENGE)
        if agent.state != AgentState.PENDING:
            require_active(agent)
        if _sequence_holds(agent, request.join_seq):
            return _recover(agent, request.join_seq)
        lock_agent(agent, f"rejoined with join sequence {request.join_seq} where {agent.join_seq} was due")
    raise Refused(Refusal.JOIN_SEQ_STALE)


def lock_agent(agent: Agent, reason: str) -> None:
    """Lock an agent whose identity is in use twice. Runs in the caller's transaction, which must then be committed."""
    before = {"state": agent.state}
    agent.state = AgentState.LOCKED.value
    agent.version += 1
    agent.save(update_fields=["state", "version", "updated_at"])
    record(actor=SYSTEM, verb="lock", obj=agent, before=before, after={"state": agent.state}, reason=reason)
    logger.warning("agents.agent.locked agent=%s: %s", agent.pk, reason)


def _sequence_holds(agent: Agent, presented: int) -> bool:
    """Tell whether the presented sequence is the current one, or one behind because our last answer was lost.

    The answer was lost if nobody has used the token that was in it. Sequence 0 stands after an unlock: whoever
    comes first goes on.
    """
    if agent.join_seq in (0, presented):
        return True
    current = AccessToken.objects.filter(agent=agent, cred_epoch=agent.cred_epoch)
    return presented == agent.join_seq - 1 and not current.exclude(first_used_at=None).exists()


def _recover(agent: Agent, presented: int) -> EnrollReply:
    now = timezone.now()
    earlier = audit_entries_for_object(SYSTEM, Agent._meta.label_lower, agent.pk)
    if earlier.filter(verb="rejoin", at__gt=now - DAY).count() >= MAX_REJOINS_PER_DAY:
        raise TooManyAttempts("The agent has recovered too often today: look for a second copy of it.", RETRY_AFTER_S)
    before = {"join_seq": agent.join_seq}
    agent.join_seq = max(agent.join_seq, presented) + 1
    agent.cred_epoch += 1
    agent.save(update_fields=["join_seq", "cred_epoch", "updated_at"])
    drop_access_tokens(agent)
    record(actor=agent_actor(agent), verb="rejoin", obj=agent, before=before, after={"join_seq": agent.join_seq})
    return identity_reply(agent, now)


def _agent_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Refused(Refusal.AGENT_UNKNOWN) from None
