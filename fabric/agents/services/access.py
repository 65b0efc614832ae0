"""Access tokens of agents: `kva1_<key id>.<secret>`, a day long, renewed by heartbeats."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models.functions import Least

from agent.protocol import EnrollReply
from fabric.agents.domain import ACCESS_TOKEN_LIFE, ACCESS_TOKEN_PREFIX, renewal_due
from fabric.agents.models import AccessToken, Agent
from fabric.agents.services.keys import control_plane_keys
from fabric.core.crypto import MintedToken, mint_token

MIN_OVERLAP = timedelta(seconds=10)


def issue_access_token(agent: Agent, now: datetime) -> tuple[MintedToken, datetime]:
    """Store a new access token for the agent's current credential epoch; return it and its expiry."""
    minted = mint_token(ACCESS_TOKEN_PREFIX)
    expires_at = now + ACCESS_TOKEN_LIFE
    AccessToken.objects.create(
        key_id=minted.key_id,
        agent=agent,
        digest=minted.digest,
        pepper_id=minted.pepper_id,
        cred_epoch=agent.cred_epoch,
        expires_at=expires_at,
    )
    return minted, expires_at


def identity_reply(agent: Agent, now: datetime) -> EnrollReply:
    """Return a fresh access token with everything else that an agent keeps of its identity."""
    minted, expires_at = issue_access_token(agent, now)
    return EnrollReply(
        agent_id=str(agent.pk),
        access_token=minted.text,
        access_token_expires_s=expires_at.timestamp(),
        control_plane_keys=control_plane_keys(),
        join_seq=agent.join_seq,
        heartbeat_interval_s=settings.ENV.heartbeat_interval_s,
        server_time_s=now.timestamp(),
    )


def note_first_use(token: AccessToken, now: datetime) -> None:
    """Note that the agent has this token now: its older ones end one heartbeat interval later (10 s at least)."""
    if AccessToken.objects.filter(pk=token.pk, first_used_at=None).update(first_used_at=now):
        overlap = max(MIN_OVERLAP, timedelta(seconds=settings.ENV.heartbeat_interval_s))
        older = AccessToken.objects.filter(agent_id=token.agent_id).exclude(pk=token.pk)
        older.update(expires_at=Least("expires_at", now + overlap))


def renewed_token(agent: Agent, token: AccessToken, now: datetime) -> tuple[MintedToken, datetime] | None:
    """Return a successor where `token` is due for one. The old one ends only after the new one was used: an answer that
    is lost costs nothing. Successors that never arrived are dropped.
    """
    if not renewal_due(token.created_at, token.expires_at, now):
        return None
    AccessToken.objects.filter(agent=agent, first_used_at=None).exclude(pk=token.pk).delete()
    return issue_access_token(agent, now)


def drop_access_tokens(agent: Agent) -> None:
    """End every access token of the agent at once."""
    AccessToken.objects.filter(agent=agent).delete()
