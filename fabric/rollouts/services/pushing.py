"""One push at one target: claim, look again, send, record, complete. Any number of workers may try; each step is
fenced.

The claim is a compare-and-set on the row's epoch. Whoever takes the row away (a later claim after the lease, a pause,
an abort, a later rollout) lets the epoch grow, and the completion of the earlier owner finds no row. The agent takes
each generation once, so a message sent twice is acknowledged twice and applied once.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from agent.protocol import ApplyReply, ApplyState
from fabric.agents.client import AgentRefused, AgentUnreachable, push_desired
from fabric.agents.models import AgentState
from fabric.agents.services import record_apply_reply
from fabric.core.failpoints import failpoint
from fabric.rollouts.domain import ReasonCode, RolloutState, TargetState, backoff_s
from fabric.rollouts.models import Rollout, RolloutTarget

logger = logging.getLogger(__name__)

MAX_REASON_TEXT_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a push came to: the target's next state, and why it is not `applied`. `retry` puts it back with a pause."""

    state: TargetState
    code: ReasonCode | None = None
    reason: str = ""
    problems: tuple[dict[str, str], ...] = ()


def push_target(*, target_id: UUID) -> TargetState | None:
    """Push one target if it is due and nobody else owns it; return its new state, or None when there was nothing to
    do.
    """
    failpoint("rollouts.push.before_claim")
    epoch = _claim(target_id, timezone.now())
    if epoch is None:
        return None
    failpoint("rollouts.push.after_claim")
    target = _claimed(target_id, epoch)
    if target is None:
        return None
    verdict = _verdict_without_push(target)
    if verdict is None:
        verdict = _push(target)
    failpoint("rollouts.push.before_complete")
    done = _complete(target, epoch, verdict, timezone.now())
    failpoint("rollouts.push.after_complete")
    return verdict.state if done else None


def _claim(target_id: UUID, now: datetime) -> int | None:
    """Take the row for one lease; return the epoch that fences it, or None when it is not to be had.

    Conditions on the row itself stand directly in the UPDATE, without a join: PostgreSQL re-evaluates those, and only
    those, when two workers meet at one row.
    """
    epoch = RolloutTarget.objects.filter(pk=target_id).values_list("epoch", flat=True).first()
    if epoch is None:
        return None
    due = Q(state=TargetState.PENDING) & (Q(next_attempt_at=None) | Q(next_attempt_at__lte=now))
    ownerless = Q(state=TargetState.PUSHING, lease_until__lt=now)
    running = Exists(Rollout.objects.filter(pk=OuterRef("rollout_id"), state=RolloutState.RUNNING))
    claimed = RolloutTarget.objects.filter(
        due | ownerless,
        running,
        pk=target_id,
        epoch=epoch,
        restored_generation=None,
        attempts__lt=settings.ENV.rollout_max_attempts,
    ).update(
        state=TargetState.PUSHING.value,
        epoch=epoch + 1,
        attempts=F("attempts") + 1,
        lease_until=now + timedelta(seconds=settings.ENV.rollout_lease_s),
        updated_at=now,
    )
    return epoch + 1 if claimed == 1 else None


def _claimed(target_id: UUID, epoch: int) -> RolloutTarget | None:
    """Read everything afresh right before sending: None when the claim was lost meanwhile."""
    return (
        RolloutTarget.objects.select_related("agent", "rollout")
        .filter(pk=target_id, epoch=epoch, state=TargetState.PUSHING, rollout__state=RolloutState.RUNNING)
        .first()
    )


def _verdict_without_push(target: RolloutTarget) -> Verdict | None:
    """Return what is clear without asking the agent, or None when it must be asked."""
    agent = target.agent
    if agent.pool_id != target.rollout.pool_id:
        return Verdict(TargetState.CANCELLED, ReasonCode.LEFT_POOL, "the agent left the pool")
    if agent.desired_generation != target.generation:
        text = f"the agent was given generation {agent.desired_generation} meanwhile"
        return Verdict(TargetState.SUPERSEDED, ReasonCode.OTHER_GENERATION, text)
    if (agent.observed_generation, agent.applied_digest) == (target.generation, target.digest):
        return Verdict(TargetState.APPLIED)  # its heartbeat was faster than we
    if agent.state in (AgentState.REVOKED, AgentState.DENIED):
        return Verdict(TargetState.FAILED, ReasonCode.AGENT_NOT_ACTIVE, f"the agent is {agent.state}")
    if agent.state != AgentState.ACTIVE:
        return Verdict(TargetState.PENDING, ReasonCode.AGENT_NOT_ACTIVE, f"the agent is {agent.state}")
    return None


def _push(target: RolloutTarget) -> Verdict:
    failpoint("rollouts.push.before_send")
    try:
        reply = push_desired(target.agent)
    except AgentUnreachable as error:
        return Verdict(TargetState.PENDING, ReasonCode.UNREACHABLE, str(error))
    except AgentRefused as error:
        code = ReasonCode.NOT_BELIEVED if error.code == "not-believed" else ReasonCode.NOT_UNDERSTOOD
        return Verdict(TargetState.PENDING, code, str(error))
    failpoint("rollouts.push.after_send")
    record_apply_reply(agent_id=target.agent_id, generation=target.generation, reply=reply)
    return judge_reply(reply, target.generation, target.digest)


def judge_reply(reply: ApplyReply, generation: int, digest: str) -> Verdict:
    """Return what an agent's answer to the push of `generation` with `digest` means for the target."""
    if reply.observed_generation > generation:
        text = f"the agent has already seen generation {reply.observed_generation}"
        return Verdict(TargetState.FAILED, ReasonCode.AGENT_AHEAD, text)
    if reply.state is ApplyState.REFUSED:
        problems = tuple(problem.model_dump() for problem in reply.problems)
        text = "; ".join(f"{p.field or 'policy'}: {p.problem}" for p in reply.problems) or "without saying why"
        return Verdict(TargetState.REFUSED, ReasonCode.REFUSED, f"the agent refused the policy: {text}", problems)
    if reply.observed_generation == generation and reply.applied_digest == digest:
        return Verdict(TargetState.APPLIED)
    if reply.observed_generation == generation:
        text = f"the agent runs {reply.applied_digest} where it was sent {digest}"
        return Verdict(TargetState.FAILED, ReasonCode.DIGEST_MISMATCH, text)
    text = f"the agent still runs generation {reply.observed_generation}"
    return Verdict(TargetState.PENDING, ReasonCode.REFUSED, text)


def _complete(target: RolloutTarget, epoch: int, verdict: Verdict, now: datetime) -> bool:
    """Write the verdict, only while the claim stands; tell whether it did."""
    same_reason = verdict.code is not None and target.reason_code == verdict.code
    changes: dict[str, object] = {
        "state": verdict.state.value,
        "lease_until": None,
        "next_attempt_at": None,
        "reason_code": verdict.code.value if verdict.code else "",
        "reason": verdict.reason[:MAX_REASON_TEXT_CHARS],
        "reason_since": (target.reason_since if same_reason else now) if verdict.code else None,
        "problems": list(verdict.problems),
        "updated_at": now,
    }
    if verdict.state is TargetState.PENDING:
        changes["next_attempt_at"] = now + timedelta(seconds=backoff_s(target.attempts))
    elif verdict.state is TargetState.APPLIED:
        changes["applied_at"] = now
    else:
        changes["ended_at"] = now
    with transaction.atomic():
        kept = RolloutTarget.objects.filter(pk=target.pk, epoch=epoch, state=TargetState.PUSHING).update(**changes)
    if not kept:
        logger.info(
            "target %s: the claim of epoch %d was lost; its outcome is left to the next owner", target.pk, epoch
        )
    return kept == 1
