"""Agents that came into a pool after its last rollout: they are given what the pool runs. No rollout, one audit row a
pool.
"""

from collections import defaultdict
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from fabric.agents.models import Agent, AgentState
from fabric.agents.services import set_desired
from fabric.audit.services import record
from fabric.core.actor import SYSTEM
from fabric.policies.models import PoolPolicy
from fabric.pools.models import Pool
from fabric.rollouts.domain import OPEN_ROLLOUT, RolloutState
from fabric.rollouts.models import Rollout, RolloutTarget

MAX_AGENTS = 500
"""Agents looked at in one call; the next call takes the next ones."""


def reconcile_pool_members() -> int:
    """Give active agents that should run something else than their pool the pool's current revision; return how many.

    A pool with an open rollout is left to it. So is an agent which the pool's last rollout, failed or aborted, left
    where it is: what to do with it is the operator's decision (start again or roll back), not ours. The agent's
    heartbeat carries the document.
    """
    strangers = (
        Agent.objects.filter(state=AgentState.ACTIVE, pool__pool_policy__current_revision__isnull=False)
        .exclude(desired_digest=F("pool__pool_policy__current_revision__digest"))
        .exclude(pool__rollouts__state__in=OPEN_ROLLOUT)
    )
    by_pool: dict[UUID, list[UUID]] = defaultdict(list)
    for agent_id, pool_id in strangers.order_by("pk").values_list("pk", "pool_id")[:MAX_AGENTS]:
        if pool_id is not None:
            by_pool[pool_id].append(agent_id)
    return sum(_catch_up(pool_id, agent_ids) for pool_id, agent_ids in sorted(by_pool.items()))


def _catch_up(pool_id: UUID, agent_ids: list[UUID]) -> int:
    with transaction.atomic():
        pool = Pool.objects.select_for_update().get(pk=pool_id)
        latest = Rollout.objects.filter(pool=pool).order_by("-created_at", "-pk").first()
        row = PoolPolicy.objects.select_related("current_revision__policy").get(pool=pool)
        revision = row.current_revision
        if revision is None or (latest is not None and latest.state in OPEN_ROLLOUT):
            return 0
        left_alone: set[UUID] = set()
        if latest is not None and latest.state != RolloutState.SUCCEEDED:
            given = Q(generation=F("agent__desired_generation")) | Q(restored_generation=F("agent__desired_generation"))
            left_alone = set(RolloutTarget.objects.filter(given, rollout=latest).values_list("agent_id", flat=True))
        agents = [
            agent
            for agent in Agent.objects.filter(pk__in=agent_ids, pool=pool, state=AgentState.ACTIVE).order_by("pk")
            if agent.pk not in left_alone and agent.desired_digest != revision.digest
        ]
        if not agents:
            return 0
        set_desired(
            actor=SYSTEM,
            agent_ids=[agent.pk for agent in agents],
            document=revision.document,
            digest=revision.digest,
        )
        names = [agent.name for agent in agents]
        after = {"revision": str(revision), "agents": names}
        record(actor=SYSTEM, verb="catch_up", obj=pool, before={}, after=after, reason="new members of the pool")
    return len(agents)
