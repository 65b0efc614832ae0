"""What the targets' agents should run: given by a rollout, taken back when it is held or aborted. Always a new
generation.

Lock order everywhere in this package: pool, rollout, agent, target.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from fabric.agents.models import Agent
from fabric.agents.services import set_desired
from fabric.core.actor import Actor
from fabric.rollouts.domain import TargetState
from fabric.rollouts.models import Rollout, RolloutTarget
from kvcache.policy import default_policy


def documents_before(agents: Iterable[Agent]) -> dict[UUID, tuple[dict[str, Any], str]]:
    """Return for each agent the document (and its digest) that stands for what it runs now.

    That is what it should run, unless an earlier rollout gave it that and the agent never took it: then it is what
    that rollout found. An agent that was never given anything runs the default policy.
    """
    agents = list(agents)
    never_taken = {
        target.agent_id: target
        for target in RolloutTarget.objects.filter(
            agent__in=agents, generation=F("agent__desired_generation"), restored_generation=None
        ).exclude(state__in=[TargetState.APPLIED, TargetState.IN_SYNC])
    }
    found: dict[UUID, tuple[dict[str, Any], str]] = {}
    for agent in agents:
        target = never_taken.get(agent.pk)
        took_it = agent.observed_generation >= agent.desired_generation and agent.applied_digest == agent.desired_digest
        if target is not None and target.previous_digest and not took_it:
            found[agent.pk] = (target.previous_document, target.previous_digest)
        elif agent.desired_digest:
            found[agent.pk] = (agent.desired_document, agent.desired_digest)
        else:
            found[agent.pk] = (default_policy().as_dict(), default_policy().digest())
    return found


def release(*, actor: Actor, rollout: Rollout, targets: Iterable[RolloutTarget], now: datetime) -> Mapping[UUID, int]:
    """Give the targets' agents the rollout's document again, after `withdraw` took it back."""
    by_agent = {target.agent_id: target for target in targets}
    generations = set_desired(
        actor=actor,
        agent_ids=sorted(by_agent),
        document=rollout.revision.document,
        digest=rollout.revision.digest,
    )
    for agent_id, generation in generations.items():
        RolloutTarget.objects.filter(pk=by_agent[agent_id].pk).update(
            generation=generation,
            restored_generation=None,
            released_at=now,
            next_attempt_at=None,
            attempts=0,
            reason_code="",
            reason="",
            reason_since=None,
            updated_at=now,
        )
    return generations


def withdraw(*, actor: Actor, targets: Iterable[RolloutTarget], now: datetime, **changes: Any) -> Mapping[UUID, int]:
    """Give the targets' agents back what they ran before, under a new generation, and set `changes` on the targets.

    A worker that is pushing one of them loses its claim (the epoch grows). What it may still send carries the older
    generation: an agent which has seen the new one refuses it, one which has not is put right by its next heartbeat.
    """
    groups: dict[str, list[RolloutTarget]] = defaultdict(list)
    for target in targets:
        groups[target.previous_digest].append(target)
    restored: dict[UUID, int] = {}
    for digest, members in sorted(groups.items()):
        restored |= set_desired(
            actor=actor,
            agent_ids=sorted(target.agent_id for target in members),
            document=members[0].previous_document,
            digest=digest,
        )
        for target in members:
            if target.agent_id in restored:
                RolloutTarget.objects.filter(pk=target.pk).update(
                    restored_generation=restored[target.agent_id],
                    epoch=F("epoch") + 1,
                    lease_until=None,
                    updated_at=now,
                    **changes,
                )
    return restored
