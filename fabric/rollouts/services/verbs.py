"""Pause, resume, abort: each a step of the table, done by one conditional update under the rollout's lock.

What a held agent should run is put back to what it ran before, under a new generation. Otherwise its next heartbeat
would deliver what the operator has just stopped: the desired state is the only thing that the agents' own path looks
at.
- pause: targets which have not acknowledged are put back and wait; acknowledged ones go on to `in_sync`.
- resume: they are given the rollout's document again, under yet another generation. Attempts start anew.
- abort: everything that is not in sync is put back and unfinished targets are cancelled. Agents in sync keep the new
  revision until `roll_back`.
"""

from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from fabric.audit.services import record
from fabric.core.actor import Actor
from fabric.core.errors import Conflict
from fabric.core.failpoints import failpoint
from fabric.rollouts.domain import OPEN_TARGET, Reason, ReasonCode, TargetState, Verb
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.nudge import nudge_targets
from fabric.rollouts.services.desired import release, withdraw
from fabric.rollouts.services.guards import checked_reason, locked_rollout, next_state, require_operator
from fabric.rollouts.services.starting import MAX_NUDGES, roll_back_rollout


def act_on_rollout(
    *, actor: Actor, rollout_id: UUID, verb: Verb, reason: str = "", expected_version: int | None = None
) -> Rollout:
    """Carry out one verb; return the rollout, or for `roll_back` the new one. Raises what the verb's own service
    raises.
    """
    service = {
        Verb.PAUSE: pause_rollout,
        Verb.RESUME: resume_rollout,
        Verb.ABORT: abort_rollout,
        Verb.ROLL_BACK: roll_back_rollout,
    }[verb]
    return service(actor=actor, rollout_id=rollout_id, reason=reason, expected_version=expected_version)


def pause_rollout(*, actor: Actor, rollout_id: UUID, reason: str = "", expected_version: int | None = None) -> Rollout:
    """Stop delivering. Raises `NotFound`, `Conflict` (not running), `StaleVersion`, `NotAllowed`."""
    require_operator(actor)
    reason = checked_reason(reason)
    with transaction.atomic():
        rollout, now = locked_rollout(rollout_id, expected_version), timezone.now()
        text = f"paused by {actor.name}" + (f": {reason}" if reason else "")
        _step(actor, rollout, Verb.PAUSE, reason, now, blocked_by=[Reason(ReasonCode.PAUSED, text, now).as_dict()])
        waiting = _targets(rollout).filter(state__in=[TargetState.PENDING, TargetState.PUSHING])
        held = [target for target in waiting if _is_ours(target, target.generation) and not _taken(target)]
        withdraw(actor=actor, targets=held, now=now, state=TargetState.PENDING.value, next_attempt_at=None)
        failpoint("rollouts.pause.before_commit")
        return locked_rollout(rollout_id)


def resume_rollout(*, actor: Actor, rollout_id: UUID, reason: str = "", expected_version: int | None = None) -> Rollout:
    """Deliver again. The pause does not count for the progress deadline. Raises as `pause_rollout` does."""
    require_operator(actor)
    reason = checked_reason(reason)
    with transaction.atomic():
        rollout, now = locked_rollout(rollout_id, expected_version), timezone.now()
        _step(actor, rollout, Verb.RESUME, reason, now, last_progress_at=now, blocked_by=[])
        waiting = _targets(rollout).filter(state=TargetState.PENDING, restored_generation__isnull=False)
        held = [target for target in waiting if _is_ours(target, target.restored_generation)]
        if held:
            release(actor=actor, rollout=rollout, targets=held, now=now)
        failpoint("rollouts.resume.before_commit")
        transaction.on_commit(partial(_nudge, [target.pk for target in held[:MAX_NUDGES]]))
        return locked_rollout(rollout_id)


def abort_rollout(*, actor: Actor, rollout_id: UUID, reason: str = "", expected_version: int | None = None) -> Rollout:
    """Stop for good and put every agent which is not in sync back to what it ran. Raises as `pause_rollout` does."""
    require_operator(actor)
    reason = checked_reason(reason)
    with transaction.atomic():
        rollout, now = locked_rollout(rollout_id, expected_version), timezone.now()
        text = f"aborted by {actor.name}" + (f": {reason}" if reason else "")
        _step(
            actor,
            rollout,
            Verb.ABORT,
            reason,
            now,
            ended_at=now,
            blocked_by=[Reason(ReasonCode.ABORTED, text, now).as_dict()],
        )
        done = [TargetState.IN_SYNC, TargetState.SUPERSEDED, TargetState.CANCELLED]
        undelivered = _targets(rollout).exclude(state__in=done).filter(restored_generation=None)
        withdraw(actor=actor, targets=[t for t in undelivered if _is_ours(t, t.generation)], now=now)
        RolloutTarget.objects.filter(rollout=rollout, state__in=OPEN_TARGET).update(
            state=TargetState.CANCELLED.value,
            epoch=F("epoch") + 1,
            lease_until=None,
            reason_code=ReasonCode.ABORTED.value,
            reason=text,
            reason_since=now,
            ended_at=now,
            updated_at=now,
        )
        failpoint("rollouts.abort.before_commit")
        return locked_rollout(rollout_id)


def _step(actor: Actor, rollout: Rollout, verb: Verb, reason: str, now: datetime, **changes: Any) -> None:
    """Move the rollout along the table, only from the state and version that were read; audit it."""
    state = next_state(rollout, verb)
    moved = Rollout.objects.filter(pk=rollout.pk, state=rollout.state, version=rollout.version).update(
        state=state.value, version=F("version") + 1, updated_at=now, **changes
    )
    if moved != 1:  # only where the database keeps no row locks
        raise Conflict("The rollout has moved on meanwhile: reload and look again.")
    record(
        actor=actor,
        verb=verb.value,
        obj=rollout,
        before={"state": rollout.state},
        after={"state": state.value},
        reason=reason,
    )


def _targets(rollout: Rollout) -> QuerySet[RolloutTarget]:
    return RolloutTarget.objects.filter(rollout=rollout).select_related("agent", "rollout").order_by("agent_id")


def _taken(target: RolloutTarget) -> bool:
    """Tell whether the agent has already reported that it runs this target's generation."""
    return (target.agent.observed_generation, target.agent.applied_digest) == (target.generation, target.digest)


def _is_ours(target: RolloutTarget, generation: int | None) -> bool:
    """Tell whether the agent is still in the rollout's pool and was given nothing else since `generation`."""
    agent = target.agent
    return agent.pool_id == target.rollout.pool_id and agent.desired_generation == generation


def _nudge(target_ids: list[UUID]) -> None:
    failpoint("rollouts.resume.before_nudge")
    nudge_targets(target_ids)
