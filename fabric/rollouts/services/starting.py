"""Starting a rollout, and rolling one back, which is starting one of the revision before."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from fabric.agents.models import Agent
from fabric.agents.selectors import agents_in_pool
from fabric.agents.services import set_desired
from fabric.audit.services import record
from fabric.core.actor import Actor
from fabric.core.errors import Blocked, Conflict, Invalid, NotFound, Problem
from fabric.core.failpoints import failpoint
from fabric.policies.models import Revision
from fabric.policies.selectors import pool_policy_for_pool, problems_for_agents
from fabric.policies.services import assign_policy
from fabric.pools.models import Pool
from fabric.rollouts.domain import OPEN_ROLLOUT, OPEN_TARGET, Reason, ReasonCode, RolloutState, TargetState, Verb
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.nudge import nudge_targets
from fabric.rollouts.services.desired import documents_before
from fabric.rollouts.services.guards import checked_reason, locked_rollout, next_state, require_operator
from kvcache.policy import parse_policy

MAX_NUDGES = 100
"""Nudges sent when a rollout starts; the sweeper sends the rest."""


def start_rollout(*, actor: Actor, pool_id: UUID, revision_id: UUID, reason: str = "") -> Rollout:
    """Send a revision to every active agent of a pool. An open rollout of the pool is superseded; the pool's policy
    follows.

    One transaction writes the rollout, its targets, the agents' desired generations and the audit rows. What travels
    to the workers after the commit is only a nudge.

    Raises:
        Blocked: the pool has no active agent.
        Conflict: this revision is on its way to this pool already.
        Invalid: agents of the pool cannot enforce the document; `problems` name agent, engine and field.
    """
    require_operator(actor)
    reason = checked_reason(reason)
    with transaction.atomic():
        return _start(actor=actor, pool_id=pool_id, revision_id=revision_id, reason=reason, rolls_back=None)


def roll_back_rollout(
    *, actor: Actor, rollout_id: UUID, reason: str = "", expected_version: int | None = None
) -> Rollout:
    """Start a rollout of what the pool ran before the given one, which must be the pool's last; return the new rollout.

    Raises:
        Conflict: it has not ended, another rollout was started since, or there is nothing to go back to.
    """
    require_operator(actor)
    reason = checked_reason(reason)
    with transaction.atomic():
        pool_id = Rollout.objects.filter(pk=rollout_id).values_list("pool_id", flat=True).first()
        if pool_id is None:
            raise NotFound("There is no such rollout.")
        _locked_pool(pool_id)
        rollout = locked_rollout(rollout_id, expected_version)
        next_state(rollout, Verb.ROLL_BACK)
        latest = Rollout.objects.filter(pool_id=pool_id).order_by("-created_at", "-pk").first()
        if latest is not None and latest.pk != rollout.pk:
            problem = Problem(
                "rollout", f"{latest} was started later", "roll that one back, or start the revision you want"
            )
            raise Conflict("Only the last rollout of a pool can be rolled back.", [problem])
        if rollout.previous_revision is None:
            problem = Problem(
                "previous_revision", "the pool ran no revision before", "start a rollout of another revision"
            )
            raise Conflict("There is nothing to roll back to.", [problem])
        record(
            actor=actor,
            verb=Verb.ROLL_BACK.value,
            obj=rollout,
            before={"revision": str(rollout.revision)},
            after={"revision": str(rollout.previous_revision)},
            reason=reason,
        )
        return _start(
            actor=actor,
            pool_id=pool_id,
            revision_id=rollout.previous_revision.pk,
            reason=reason or f"roll back of {rollout.revision}",
            rolls_back=rollout,
        )


def _start(*, actor: Actor, pool_id: UUID, revision_id: UUID, reason: str, rolls_back: Rollout | None) -> Rollout:
    now = timezone.now()
    pool = _locked_pool(pool_id)
    revision = Revision.objects.select_related("policy").filter(pk=revision_id).first()
    if revision is None:
        raise NotFound("There is no such revision.")
    superseded = _supersede_open(pool, revision, now)
    agents = _agents_that_can(actor, pool, revision)
    running = pool_policy_for_pool(actor, pool.pk)
    assign_policy(actor=actor, pool_id=pool.pk, policy_id=revision.policy_id, reason=reason)
    rollout = Rollout.objects.create(
        pool=pool,
        revision=revision,
        previous_revision=running.current_revision if running else None,
        rolls_back=rolls_back,
        state=RolloutState.RUNNING.value,
        reason=reason,
        started_by=actor.name,
        last_progress_at=now,
    )
    targets = _make_targets(actor, rollout, agents, superseded, now)
    record(
        actor=actor,
        verb="start",
        obj=rollout,
        before={"supersedes": str(superseded.pk)} if superseded else {},
        after={"pool": pool.name, "revision": str(revision), "digest": revision.digest, "agents": len(targets)},
        reason=reason,
    )
    failpoint("rollouts.start.before_commit")
    transaction.on_commit(partial(_nudge, [target.pk for target in targets[:MAX_NUDGES]]))
    return rollout


def _nudge(target_ids: list[UUID]) -> None:
    failpoint("rollouts.start.before_nudge")
    nudge_targets(target_ids)


def _locked_pool(pool_id: UUID) -> Pool:
    """Return the pool, locked: rollouts of one pool start one after the other."""
    pool = Pool.objects.select_for_update().filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("There is no such pool.")
    return pool


def _agents_that_can(actor: Actor, pool: Pool, revision: Revision) -> list[Agent]:
    """Return the pool's active agents. Raises `Blocked` when there is none, `Invalid` when one cannot enforce the
    revision.
    """
    agents = list(agents_in_pool(actor, pool.pk))
    if not agents:
        problem = Problem(
            "pool", "no active agent is in it", "enrol an agent with a join token of this pool, or approve one"
        )
        raise Blocked(f"Pool {pool.name} has no active agent to send {revision} to.", [problem])
    problems = problems_for_agents(parse_policy(revision.document), agents)
    if problems:
        raise Invalid(
            f"Not every agent of pool {pool.name} can enforce {revision}; nothing was sent.",
            [Problem(p.field, str(p), p.remedy) for p in problems],
        )
    return agents


def _supersede_open(pool: Pool, revision: Revision, now: datetime) -> Rollout | None:
    """End the pool's open rollout: a later one takes over. Its targets end when the agents have a new generation."""
    rollout = (
        Rollout.objects.select_for_update(of=("self",))
        .select_related("pool", "revision__policy")
        .filter(pool=pool, state__in=OPEN_ROLLOUT)
        .first()
    )
    if rollout is None:
        return None
    if rollout.revision_id == revision.pk and rollout.state == RolloutState.RUNNING:
        problem = Problem("revision", f"rollout {rollout.pk} carries it already", "follow that one")
        raise Conflict(f"{revision} is on its way to pool {pool.name} already.", [problem])
    text = f"{revision} was started"
    Rollout.objects.filter(pk=rollout.pk).update(
        state=RolloutState.SUPERSEDED.value,
        ended_at=now,
        updated_at=now,
        version=F("version") + 1,
        blocked_by=[Reason(ReasonCode.SUPERSEDED, text, now).as_dict()],
    )
    return rollout


def _make_targets(
    actor: Actor, rollout: Rollout, agents: Sequence[Agent], superseded: Rollout | None, now: datetime
) -> list[RolloutTarget]:
    """Give the agents their new generation, end the unfinished targets of the superseded rollout, and write one
    target an agent.
    """
    before = documents_before(agents)
    generations = set_desired(
        actor=actor,
        agent_ids=[agent.pk for agent in agents],
        document=rollout.revision.document,
        digest=rollout.revision.digest,
    )
    RolloutTarget.objects.filter(rollout=superseded, state__in=OPEN_TARGET).update(
        state=TargetState.SUPERSEDED.value,
        epoch=F("epoch") + 1,
        lease_until=None,
        ended_at=now,
        updated_at=now,
    )
    return RolloutTarget.objects.bulk_create(
        RolloutTarget(
            rollout=rollout,
            agent=agent,
            generation=generations[agent.pk],
            digest=rollout.revision.digest,
            previous_document=before[agent.pk][0],
            previous_digest=before[agent.pk][1],
            released_at=now,
        )
        for agent in agents
        if agent.pk in generations
    )
