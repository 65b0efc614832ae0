"""The sweeper: finds by itself what nudges and workers have lost. Any number of copies may run, at any time, also
none for a while.
"""

import logging
import time
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from fabric.rollouts.domain import OPEN_ROLLOUT, RolloutState, TargetState
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.nudge import nudge_targets
from fabric.rollouts.services.members import reconcile_pool_members
from fabric.rollouts.services.observing import observe_rollout
from fabric.rollouts.services.pushing import push_target

logger = logging.getLogger(__name__)

MAX_NUDGES = 200
MAX_INLINE_PUSHES = 8
INLINE_BUDGET_S = 15.0
"""With the broker down a sweeper pushes a few targets itself, and stops before its own time limit."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep did: rollouts looked at and ended, targets nudged and pushed inline, agents caught up, rollouts
    it failed on.
    """

    open: int
    ended: int
    nudged: int
    pushed: int
    caught_up: int
    errors: int


def sweep_rollouts(*, now: datetime | None = None) -> SweepReport:
    """Observe every open rollout, nudge (or, without a broker, push) what is due, and catch up new members of pools."""
    now = now or timezone.now()
    rollout_ids = list(
        Rollout.objects.filter(state__in=OPEN_ROLLOUT).order_by("created_at").values_list("pk", flat=True)
    )
    ended, errors = _observe_all(rollout_ids, now)
    due = _due_targets(now)
    nudged = nudge_targets(due) if due else 0
    pushed = _push_inline(due[nudged:])
    if pushed:
        again, more_errors = _observe_all(rollout_ids, timezone.now())
        ended, errors = ended + again, errors + more_errors
    return SweepReport(len(rollout_ids), ended, nudged, pushed, reconcile_pool_members(), errors)


def _observe_all(rollout_ids: list[UUID], now: datetime) -> tuple[int, int]:
    ended = errors = 0
    for rollout_id in rollout_ids:
        try:
            state = observe_rollout(rollout_id, now)
        except Exception:
            logger.exception("rollout %s could not be observed", rollout_id)
            errors += 1
            continue
        ended += state in (RolloutState.SUCCEEDED, RolloutState.FAILED)
    return ended, errors


def _due_targets(now: datetime) -> list[UUID]:
    """Return targets of running rollouts that somebody should push now, longest waiting first."""
    due = Q(state=TargetState.PENDING) & (Q(next_attempt_at=None) | Q(next_attempt_at__lte=now))
    ownerless = Q(state=TargetState.PUSHING, lease_until__lt=now)
    rows = RolloutTarget.objects.filter(
        due | ownerless,
        rollout__state=RolloutState.RUNNING,
        restored_generation=None,
        attempts__lt=settings.ENV.rollout_max_attempts,
    )
    return list(rows.order_by("updated_at").values_list("pk", flat=True)[:MAX_NUDGES])


def _push_inline(target_ids: list[UUID]) -> int:
    """Push what the broker did not take, within bounds."""
    until = time.monotonic() + INLINE_BUDGET_S
    pushed = 0
    for target_id in target_ids[:MAX_INLINE_PUSHES]:
        if time.monotonic() > until:
            break
        pushed += push_target(target_id=target_id) is not None
    return pushed
