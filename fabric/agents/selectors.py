"""Reads of agents. Every function that people's edges use takes the actor; any signed-in role may read agents."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from fabric.agents.domain import Observation, SyncState, sync_state_of
from fabric.agents.models import AccessToken, Agent, AgentState, JoinToken
from fabric.core.actor import Actor, Role
from fabric.core.errors import NotFound


@dataclass(frozen=True, slots=True)
class AgentOverview:
    """One agent as lists and the overview show it. `age_s` is the time since its last heartbeat, None when there was
    none.
    """

    agent: Agent
    sync: SyncState
    age_s: float | None
    tiers: Mapping[str, Mapping[str, int]]
    """Per tier: stored_bytes, stored_blocks, capacity_bytes, limit_bytes, as last reported."""


@dataclass(frozen=True, slots=True)
class AgentScrapeTarget:
    """Where an active agent's metrics are read; get the bearer token with `services.mint_read_grant(target.agent)`."""

    agent: Agent
    agent_id: UUID
    name: str
    pool_id: UUID | None
    metrics_url: str


def agents_for_list(actor: Actor) -> QuerySet[Agent]:
    """Return every agent with its pool and host, without the documents that only its own page needs."""
    return Agent.objects.select_related("pool", "host").defer("desired_document").order_by("name")


def agent_detail(actor: Actor, agent_id: UUID) -> Agent:
    """Return one agent with its pool and host. Raises `NotFound`."""
    agent = Agent.objects.select_related("pool", "host").filter(pk=agent_id).first()
    if agent is None:
        raise NotFound("There is no such agent.")
    return agent


def agents_in_pool(actor: Actor, pool_id: UUID) -> QuerySet[Agent]:
    """Return the pool's active agents, the ones that a policy reaches, in the order of their ids (the order of
    locks).
    """
    return Agent.objects.filter(pool_id=pool_id, state=AgentState.ACTIVE).order_by("pk")


def sync_state(agent: Agent, now: datetime) -> SyncState:
    """Return what the agent runs against what it should run; `in_sync` needs generation, digest and a fresh
    heartbeat.
    """
    seen = Observation(
        active=agent.state == AgentState.ACTIVE,
        desired_generation=agent.desired_generation,
        desired_digest=agent.desired_digest,
        observed_generation=agent.observed_generation,
        applied_digest=agent.applied_digest,
        refused=bool(agent.apply_problems),
        last_heartbeat_at=agent.last_heartbeat_at,
    )
    return sync_state_of(seen, now, settings.ENV.heartbeat_stale_after_s)


def agents_for_overview(actor: Actor) -> list[AgentOverview]:
    """Return every agent with its sync state and what its tiers hold, by name."""
    now = timezone.now()
    return [overview_of(agent, now) for agent in agents_for_list(actor)]


def overview_of(agent: Agent, now: datetime) -> AgentOverview:
    """Return one agent as the overview shows it at `now`."""
    age_s = (now - agent.last_heartbeat_at).total_seconds() if agent.last_heartbeat_at else None
    return AgentOverview(agent=agent, sync=sync_state(agent, now), age_s=age_s, tiers=tiers_of(agent.status))


def tiers_of(status: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the tier figures of a stored status by tier; empty where the agent has not reported yet."""
    names = ("stored_bytes", "stored_blocks", "capacity_bytes", "limit_bytes")
    return {tier["tier"]: {name: int(tier[name]) for name in names} for tier in status.get("tiers", [])}


def scrape_targets_for_agents() -> list[AgentScrapeTarget]:
    """Return where to read the metrics of every active agent, by name."""
    return [
        AgentScrapeTarget(agent, agent.pk, agent.name, agent.pool_id, agent.manage_url.rstrip("/") + "/metrics")
        for agent in Agent.objects.filter(state=AgentState.ACTIVE).defer("desired_document").order_by("name")
    ]


def join_tokens_for_list(actor: Actor) -> QuerySet[JoinToken]:
    """Return join tokens, newest first, to those who may mint them; nothing to viewers."""
    tokens = JoinToken.objects.select_related("pool").defer("digest", "pepper_id").order_by("-created_at")
    return tokens if actor.may(Role.OPERATOR) else tokens.none()


def access_token_by_key(key_id: str) -> AccessToken | None:
    """Return the access token with this public key id and its agent, or None."""
    return AccessToken.objects.select_related("agent").filter(key_id=key_id).first()
