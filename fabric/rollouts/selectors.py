"""Reads of rollouts. Every function takes the actor; any signed-in role may read rollouts."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from fabric.core.actor import Actor, Role
from fabric.core.errors import NotFound
from fabric.rollouts.domain import (
    OPEN_ROLLOUT,
    Reason,
    ReasonCode,
    RolloutState,
    TargetFacts,
    TargetState,
    Verb,
    allowed_verbs,
    target_reason,
)
from fabric.rollouts.models import Rollout, RolloutTarget


def rollouts_for_overview(actor: Actor) -> QuerySet[Rollout]:
    """Return every rollout, newest first, with `targets_total`, `targets_in_sync`, `targets_open` and `targets_stuck`
    counted, and `is_latest`: whether no other rollout of its pool was started later.
    """
    state = "targets__state"
    later = Rollout.objects.filter(pool_id=OuterRef("pool_id"), created_at__gt=OuterRef("created_at"))
    rollouts = Rollout.objects.select_related("pool", "revision__policy", "previous_revision__policy").annotate(
        is_latest=~Exists(later),
        targets_total=Count("targets"),
        targets_in_sync=Count("targets", filter=Q(**{state: TargetState.IN_SYNC})),
        targets_open=Count(
            "targets", filter=Q(**{f"{state}__in": [TargetState.PENDING, TargetState.PUSHING, TargetState.APPLIED]})
        ),
        targets_stuck=Count("targets", filter=Q(**{f"{state}__in": [TargetState.REFUSED, TargetState.FAILED]})),
    )
    return rollouts.order_by("-created_at", "-pk")


@dataclass(frozen=True, slots=True)
class RolloutDetail:
    """One rollout with its targets, why it does not move (as of now, even with no sweeper alive), and what may be
    asked of it.
    """

    rollout: Rollout
    targets: list[RolloutTarget]
    reasons: list[Reason]
    verbs: list[Verb]


def rollout_detail(actor: Actor, rollout_id: UUID) -> RolloutDetail:
    """Return everything a page shows of one rollout. Raises `NotFound`."""
    rollout = rollouts_for_overview(actor).filter(pk=rollout_id).first()
    if rollout is None:
        raise NotFound("There is no such rollout.")
    targets = list(targets_for_rollout(actor, rollout_id))
    reasons = reasons_for_rollout(rollout, targets, timezone.now())
    return RolloutDetail(rollout, targets, reasons, verbs_for_rollout(actor, rollout))


def targets_for_rollout(actor: Actor, rollout_id: UUID) -> QuerySet[RolloutTarget]:
    """Return a rollout's targets with their agents, by agent name. Raises `NotFound` when there is no such rollout."""
    if not Rollout.objects.filter(pk=rollout_id).exists():
        raise NotFound("There is no such rollout.")
    return targets_with_agents(rollout_id)


def targets_with_agents(rollout_id: UUID) -> QuerySet[RolloutTarget]:
    """Return a rollout's targets with their agents, by agent name, without the documents that nobody lists."""
    large = ("previous_document", "agent__desired_document", "agent__status", "agent__capabilities")
    targets = RolloutTarget.objects.filter(rollout_id=rollout_id).select_related("agent").defer(*large)
    return targets.order_by("agent__name")


def open_rollout_for_pool(actor: Actor, pool_id: UUID) -> Rollout | None:
    """Return the pool's running or paused rollout, if there is one."""
    return rollouts_for_overview(actor).filter(pool_id=pool_id, state__in=OPEN_ROLLOUT).first()


def verbs_for_rollout(actor: Actor, rollout: Rollout) -> list[Verb]:
    """Return exactly the verbs that the services would accept from `actor` now."""
    if not actor.may(Role.OPERATOR):
        return []
    verbs = allowed_verbs(RolloutState(rollout.state))
    if Verb.ROLL_BACK in verbs and not _can_roll_back(rollout):
        verbs.remove(Verb.ROLL_BACK)
    return verbs


def _can_roll_back(rollout: Rollout) -> bool:
    if rollout.previous_revision_id is None:
        return False
    known: bool | None = getattr(rollout, "is_latest", None)  # of `rollouts_for_overview`
    if known is not None:
        return known
    latest = Rollout.objects.filter(pool_id=rollout.pool_id).order_by("-created_at", "-pk").values_list("pk", flat=True)
    return latest.first() == rollout.pk


def reasons_for_rollout(rollout: Rollout, targets: Iterable[RolloutTarget], now: datetime) -> list[Reason]:
    """Return why a rollout which has not succeeded does not move: its own reasons, then its targets' by agent name."""
    state = RolloutState(rollout.state)
    if state is RolloutState.SUCCEEDED:
        return []
    reasons = [own] if (own := _own_reason(rollout)) else []
    if state in (RolloutState.ABORTED, RolloutState.SUPERSEDED):
        return reasons
    found = (target_reason(_facts(t, now), now) for t in targets if t.restored_generation is None)
    return reasons + [reason for reason in found if reason is not None]


def _own_reason(rollout: Rollout) -> Reason | None:
    """Return the reason that the last verb or the settling left with the rollout itself."""
    for entry in rollout.blocked_by:
        if entry["target"] is None:
            return Reason(ReasonCode(entry["code"]), entry["reason"], datetime.fromisoformat(entry["since"]))
    return None


def _facts(target: RolloutTarget, now: datetime) -> TargetFacts:
    heard_at = target.agent.last_heartbeat_at
    stale_after = timedelta(seconds=settings.ENV.heartbeat_stale_after_s)
    return TargetFacts(
        target=str(target.pk),
        agent=target.agent.name,
        agent_id=str(target.agent_id),
        state=TargetState(target.state),
        attempts=target.attempts,
        waiting_since=target.released_at,
        applied_at=target.applied_at,
        last_heartbeat_at=heard_at,
        stale=heard_at is None or now - heard_at > stale_after,
        observed_generation=target.agent.observed_generation,
        agent_state=target.agent.state,
        reason_code=target.reason_code,
        reason=target.reason,
        reason_since=target.reason_since,
        problems=tuple(target.problems),
    )


class Mark(NamedTuple):
    """One moment worth a line on a chart."""

    at: datetime
    kind: str
    label: str
    url: str


def rollout_marks(since: datetime, *, pool_id: UUID | None = None, agent_id: UUID | None = None) -> list[Mark]:
    """Return what rollouts did after `since`, oldest first: `rollout_started`, `rollout_agent_in_sync`, `rollout_<end
    state>`.

    For telemetry's charts, which every signed-in user sees; `pool_id` and `agent_id` narrow it to one pool or agent.
    """
    rollouts = Rollout.objects.select_related("pool", "revision__policy").order_by()
    targets = RolloutTarget.objects.filter(state=TargetState.IN_SYNC, ended_at__gt=since).select_related(
        "agent", "rollout__pool", "rollout__revision__policy"
    )
    if pool_id is not None:
        rollouts, targets = rollouts.filter(pool_id=pool_id), targets.filter(rollout__pool_id=pool_id)
    if agent_id is not None:
        rollouts, targets = rollouts.filter(targets__agent_id=agent_id), targets.filter(agent_id=agent_id)
    marks = [
        Mark(r.created_at, "rollout_started", f"{r.revision} started to {r.pool}", r.get_absolute_url())
        for r in rollouts.filter(created_at__gt=since)
    ]
    marks += [
        Mark(r.ended_at, f"rollout_{r.state}", f"{r.revision} to {r.pool} {r.state}", r.get_absolute_url())
        for r in rollouts.filter(ended_at__gt=since)
        if r.ended_at
    ]
    marks += [
        Mark(t.ended_at, "rollout_agent_in_sync", f"{t.agent} runs {t.rollout.revision}", t.rollout.get_absolute_url())
        for t in targets
        if t.ended_at
    ]
    return sorted(marks)
