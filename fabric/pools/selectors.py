"""Reads of pools; any signed-in role may read them.

Pools lie below agents in the order of apps: of their members only what the `agents` relation of the model shows is
read here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from fabric.core.actor import Actor
from fabric.core.errors import NotFound
from fabric.pools.domain import TierSum, sum_tiers
from fabric.pools.models import Pool

_FIGURES = ("stored_bytes", "stored_blocks", "capacity_bytes", "limit_bytes")


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """A pool, how many agents it has, and what the active ones last reported, added up tier by tier."""

    pool: Pool
    agents: int
    active_agents: int
    reporting_agents: int
    tiers: list[TierSum]


def pools_for_list(actor: Actor) -> QuerySet[Pool]:
    """Return every pool with its pod and `agent_count`, `active_agent_count`, by name."""
    return (
        Pool.objects.select_related("pod__site")
        .annotate(
            agent_count=Count("agents"),
            active_agent_count=Count("agents", filter=Q(agents__state="active")),
        )
        .order_by("name")
    )


def pool_detail(actor: Actor, pool_id: UUID) -> Pool:
    """Return one pool as `pools_for_list` gives it. Raises `NotFound`."""
    pool = pools_for_list(actor).filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("There is no such pool.")
    return pool


def pool_summary(actor: Actor, pool_id: UUID) -> PoolSummary:
    """Return one pool with its capacity. Raises `NotFound`."""
    return pool_summaries(actor, [pool_detail(actor, pool_id)])[0]


def pool_summaries(actor: Actor, pools: Iterable[Pool] | None = None) -> list[PoolSummary]:
    """Return the summaries of these pools (None: of all), in one query for all their agents."""
    pools = list(pools_for_list(actor) if pools is None else pools)
    rows = Pool.objects.filter(pk__in=[pool.pk for pool in pools], agents__isnull=False).values_list(
        "pk", "agents__state", "agents__status"
    )
    members: dict[UUID, list[tuple[str, Mapping[str, Any]]]] = {pool.pk: [] for pool in pools}
    for pool_id, state, status in rows:
        members[pool_id].append((state, status))
    return [_summary(pool, members[pool.pk]) for pool in pools]


def _summary(pool: Pool, members: list[tuple[str, Mapping[str, Any]]]) -> PoolSummary:
    active = [status for state, status in members if state == "active"]
    reports = [
        {tier["tier"]: {name: int(tier[name]) for name in _FIGURES} for tier in status.get("tiers", [])}
        for status in active
    ]
    return PoolSummary(
        pool=pool,
        agents=len(members),
        active_agents=len(active),
        reporting_agents=sum(bool(report) for report in reports),
        tiers=sum_tiers(reports),
    )
