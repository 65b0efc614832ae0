"""What the agents' own reports mean for a rollout's targets, and when a rollout has ended. One rollout, one
transaction, one lock.

Any number of sweepers may run: the rollout's row is locked (PostgreSQL: others skip it; SQLite: writers queue), and
every change is conditional on what was read, because workers complete their targets without that lock.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from fabric.agents.domain import SyncState
from fabric.agents.models import AgentState
from fabric.agents.selectors import sync_state
from fabric.audit.services import record
from fabric.core.actor import SYSTEM
from fabric.core.failpoints import failpoint
from fabric.policies.services import set_current_revision
from fabric.rollouts.domain import (
    OPEN_ROLLOUT,
    OPEN_TARGET,
    Reason,
    ReasonCode,
    RolloutState,
    TargetState,
    outcome,
)
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.selectors import reasons_for_rollout, targets_with_agents


@dataclass(frozen=True, slots=True)
class Observation:
    """What a target has become by what its agent reports."""

    state: TargetState
    code: ReasonCode | None = None
    reason: str = ""


def observe_rollout(rollout_id: UUID, now: datetime) -> RolloutState | None:
    """Bring one open rollout up to date; return its state, or None when it had ended or another sweeper has it."""
    with transaction.atomic():
        rollout = (
            Rollout.objects.select_for_update(of=("self",), skip_locked=True)
            .select_related("pool", "revision__policy")
            .filter(pk=rollout_id, state__in=OPEN_ROLLOUT)
            .first()
        )
        if rollout is None:
            return None
        targets = list(targets_with_agents(rollout.pk))
        failpoint("rollouts.sweep.before_observe")
        for target in targets:
            observation = _observe(target, rollout, now)
            if observation is not None:
                _record(target, observation, now)
        _note_progress(rollout, targets)
        if rollout.state == RolloutState.RUNNING:
            _enforce_deadline(rollout, targets, now)
            _settle(rollout, targets, now)
        _write_reasons(rollout, targets, now)
        failpoint("rollouts.sweep.before_commit")
        return RolloutState(rollout.state)


def _observe(target: RolloutTarget, rollout: Rollout, now: datetime) -> Observation | None:
    """Return the change that the agent's row implies for an open target, or None."""
    agent = target.agent
    if target.state not in OPEN_TARGET:
        return None
    if agent.pool_id != rollout.pool_id:
        return Observation(TargetState.CANCELLED, ReasonCode.LEFT_POOL, "the agent left the pool")
    given = target.generation if target.restored_generation is None else target.restored_generation
    if agent.desired_generation != given:
        text = f"the agent was given generation {agent.desired_generation} meanwhile"
        return Observation(TargetState.SUPERSEDED, ReasonCode.OTHER_GENERATION, text)
    if agent.state in (AgentState.REVOKED, AgentState.DENIED):
        return Observation(TargetState.FAILED, ReasonCode.AGENT_NOT_ACTIVE, f"the agent is {agent.state}")
    if target.restored_generation is not None:
        return None  # held back by a pause
    if sync_state(agent, now) is SyncState.IN_SYNC:
        return Observation(TargetState.IN_SYNC)
    if target.state == TargetState.APPLIED:
        return None
    if (agent.observed_generation, agent.applied_digest) == (target.generation, target.digest):
        return Observation(TargetState.APPLIED)
    if target.attempts >= settings.ENV.rollout_max_attempts and not _is_owned(target, now):
        text = f"{target.attempts} pushes did not get through"
        last = f"; the last one: {target.reason}" if target.reason else ""
        return Observation(TargetState.FAILED, ReasonCode.ATTEMPTS_EXHAUSTED, text + last)
    return None


def _is_owned(target: RolloutTarget, now: datetime) -> bool:
    return target.state == TargetState.PUSHING and target.lease_until is not None and target.lease_until >= now


def _record(target: RolloutTarget, observation: Observation, now: datetime) -> None:
    """Write the observation if the row is still as it was read, and mirror it on `target`; otherwise leave it to the
    next sweep.
    """
    changes: dict[str, Any] = {
        "state": observation.state.value,
        "lease_until": None,
        "next_attempt_at": None,
        "reason_code": observation.code.value if observation.code else "",
        "reason": observation.reason,
        "reason_since": now if observation.code else None,
        "problems": [],
        "updated_at": now,
    }
    if observation.state in (TargetState.APPLIED, TargetState.IN_SYNC):
        changes["applied_at"] = target.applied_at or now
    if observation.state is not TargetState.APPLIED:
        changes["ended_at"] = now
    kept = RolloutTarget.objects.filter(pk=target.pk, state=target.state, epoch=target.epoch).update(
        epoch=F("epoch") + 1, **changes
    )
    if kept:
        for name, value in changes.items():
            setattr(target, name, value)
    else:
        target.refresh_from_db(fields=[*changes, "epoch", "attempts"])


def _note_progress(rollout: Rollout, targets: list[RolloutTarget]) -> None:
    """Progress is the latest moment at which a target was acknowledged or came in sync."""
    moments = [t.applied_at for t in targets if t.applied_at]
    moments += [t.ended_at for t in targets if t.ended_at and t.state == TargetState.IN_SYNC]
    latest = max(moments, default=rollout.last_progress_at)
    if latest > rollout.last_progress_at:
        Rollout.objects.filter(pk=rollout.pk).update(last_progress_at=latest)
        rollout.last_progress_at = latest


def _enforce_deadline(rollout: Rollout, targets: list[RolloutTarget], now: datetime) -> None:
    """Fail what is still open when nothing has moved for the whole progress deadline; the cause so far stays in the
    text.
    """
    deadline_s = settings.ENV.rollout_progress_deadline_s
    if now - rollout.last_progress_at <= timedelta(seconds=deadline_s):
        return
    causes = {reason.target: reason.reason for reason in reasons_for_rollout(rollout, targets, now)}
    for target in targets:
        if target.state in OPEN_TARGET and not _is_owned(target, now):
            text = f"no progress for {deadline_s:g} s"
            cause = causes.get(str(target.pk))
            text += f"; {cause}" if cause else ""
            _record(target, Observation(TargetState.FAILED, ReasonCode.PROGRESS_DEADLINE, text), now)


def _settle(rollout: Rollout, targets: list[RolloutTarget], now: datetime) -> None:
    """End the rollout when none of its targets is open any more."""
    end = outcome([TargetState(target.state) for target in targets])
    if end is None:
        return
    failpoint("rollouts.sweep.before_settle")
    blocked_by: list[dict[str, Any]] = []
    if end is RolloutState.FAILED and not any(t.state in (TargetState.FAILED, TargetState.REFUSED) for t in targets):
        blocked_by = [Reason(ReasonCode.NO_AGENT_LEFT, "no agent of this rollout is left in the pool", now).as_dict()]
    moved = Rollout.objects.filter(pk=rollout.pk, state=RolloutState.RUNNING).update(
        state=end.value, ended_at=now, updated_at=now, version=F("version") + 1, blocked_by=blocked_by
    )
    if not moved:
        return
    if end is RolloutState.SUCCEEDED:
        set_current_revision(actor=SYSTEM, pool_id=rollout.pool_id, revision_id=rollout.revision_id)
    record(
        actor=SYSTEM,
        verb="end",
        obj=rollout,
        before={"state": rollout.state},
        after={"state": end.value},
        reason="",
    )
    rollout.state, rollout.ended_at, rollout.blocked_by = end.value, now, blocked_by


def _write_reasons(rollout: Rollout, targets: list[RolloutTarget], now: datetime) -> None:
    """Store the reasons with the rollout, so that lists and events have them without looking at every target."""
    reasons = [reason.as_dict() for reason in reasons_for_rollout(rollout, targets, now)]
    if reasons != rollout.blocked_by:
        Rollout.objects.filter(pk=rollout.pk).update(blocked_by=reasons)
        rollout.blocked_by = reasons
