"""States, verbs and reasons of a rollout, each table once: used by services, API, buttons, docs and property tests."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class RolloutState(StrEnum):
    """Where a rollout stands."""

    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"


class Verb(StrEnum):
    """What an operator may ask of a rollout; the same word in page, API and audit log."""

    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"
    ROLL_BACK = "roll_back"


class TargetState(StrEnum):
    """Where one agent of a rollout stands. `applied` was acknowledged; `in_sync` was also seen in a fresh heartbeat."""

    PENDING = "pending"
    PUSHING = "pushing"
    APPLIED = "applied"
    IN_SYNC = "in_sync"
    REFUSED = "refused"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"


OPEN_ROLLOUT = frozenset({RolloutState.RUNNING, RolloutState.PAUSED})
OPEN_TARGET = frozenset({TargetState.PENDING, TargetState.PUSHING, TargetState.APPLIED})
ENDED_TARGET = frozenset(TargetState) - OPEN_TARGET

TRANSITIONS: Mapping[RolloutState, Mapping[Verb, RolloutState]] = {
    RolloutState.RUNNING: {Verb.PAUSE: RolloutState.PAUSED, Verb.ABORT: RolloutState.ABORTED},
    RolloutState.PAUSED: {Verb.RESUME: RolloutState.RUNNING, Verb.ABORT: RolloutState.ABORTED},
    RolloutState.FAILED: {Verb.ROLL_BACK: RolloutState.FAILED},
    RolloutState.SUCCEEDED: {Verb.ROLL_BACK: RolloutState.SUCCEEDED},
    RolloutState.ABORTED: {Verb.ROLL_BACK: RolloutState.ABORTED},
    RolloutState.SUPERSEDED: {},
}
"""Rolling back starts a *new* rollout of the revision that ran before; the old one keeps its state and says by whom
it was followed.
"""


def allowed_verbs(state: RolloutState) -> list[Verb]:
    """Return the verbs that `state` accepts, in the order in which buttons stand."""
    return list(TRANSITIONS[state])


def outcome(states: Collection[TargetState]) -> RolloutState | None:
    """Return how a rollout with targets in `states` ends, or None while one of them is open.

    Agents that left the pool or were given something else meanwhile do not count; if nobody is left, nothing was
    reached.
    """
    if any(state in OPEN_TARGET for state in states):
        return None
    counted = [state for state in states if state not in (TargetState.CANCELLED, TargetState.SUPERSEDED)]
    done = bool(counted) and all(state is TargetState.IN_SYNC for state in counted)
    return RolloutState.SUCCEEDED if done else RolloutState.FAILED


BACKOFF_MAX_S = 30.0


def backoff_s(attempts: int) -> float:
    """Return the pause after the `attempts`-th push that did not get through: 1, 2, 4 … at most 30 s."""
    return min(BACKOFF_MAX_S, 2.0 ** min(max(attempts - 1, 0), 10))


class ReasonCode(StrEnum):
    """Why a target or a rollout does not move, for programs."""

    PAUSED = "paused"
    WAITING_FOR_WORKER = "waiting_for_worker"
    WAITING_FOR_HEARTBEAT = "waiting_for_heartbeat"
    UNREACHABLE = "unreachable"
    NOT_BELIEVED = "not_believed"
    NOT_UNDERSTOOD = "not_understood"
    REFUSED = "refused"
    DIGEST_MISMATCH = "digest_mismatch"
    AGENT_AHEAD = "agent_ahead"
    AGENT_NOT_ACTIVE = "agent_not_active"
    LEFT_POOL = "left_pool"
    OTHER_GENERATION = "other_generation"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    PROGRESS_DEADLINE = "progress_deadline"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"
    NO_AGENT_LEFT = "no_agent_left"


UNBLOCKS: Mapping[ReasonCode, str] = {
    ReasonCode.PAUSED: "Resume the rollout, or abort it.",
    ReasonCode.WAITING_FOR_WORKER: (
        "Start a worker (manage.py up --only worker,beat). The agent also takes the policy with its next heartbeat."
    ),
    ReasonCode.WAITING_FOR_HEARTBEAT: "Wait for the agent's next heartbeat; if none comes, see its log and network.",
    ReasonCode.UNREACHABLE: (
        "Start the agent, or repair the network to its management port. It is tried again by itself, "
        "and the agent takes the policy with its next heartbeat."
    ),
    ReasonCode.NOT_BELIEVED: "The agent does not accept our signature: check its clock, or enrol it again.",
    ReasonCode.NOT_UNDERSTOOD: (
        "Something else than an agent of this version answers at its management address: check address and versions."
    ),
    ReasonCode.REFUSED: "Write a revision that this agent can enforce and start a rollout of it, or roll back.",
    ReasonCode.DIGEST_MISMATCH: (
        "The agent runs another document than it was sent: compare the versions of agent and control plane."
    ),
    ReasonCode.AGENT_AHEAD: (
        "The agent has seen a later generation than we know of (a restored database?): start the rollout again."
    ),
    ReasonCode.AGENT_NOT_ACTIVE: "Approve or unlock the agent on its page, or move it out of the pool.",
    ReasonCode.LEFT_POOL: "Nothing to do: the agent belongs to another pool now.",
    ReasonCode.OTHER_GENERATION: "Nothing to do here: the agent was given another policy meanwhile.",
    ReasonCode.ATTEMPTS_EXHAUSTED: "Bring the agent back, then start the rollout again, or roll back.",
    ReasonCode.PROGRESS_DEADLINE: "Remove the cause named with each agent, then start the rollout again, or roll back.",
    ReasonCode.ABORTED: "Start a rollout again, or roll back the agents which already changed.",
    ReasonCode.SUPERSEDED: "Nothing to do: a later rollout of the pool took over.",
    ReasonCode.NO_AGENT_LEFT: "Put an agent into the pool, then start the rollout again.",
}
"""What an operator does about each reason."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something does not move: which target (None: the rollout itself), which agent, since when, and what
    unblocks it.
    """

    code: ReasonCode
    reason: str
    since: datetime
    target: str | None = None
    agent: str | None = None
    agent_id: str | None = None
    problems: tuple[Mapping[str, str], ...] = ()

    @property
    def unblocks(self) -> str:
        """What an operator does about it."""
        return UNBLOCKS[self.code]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values; `since` as ISO 8601 with zone."""
        return {
            "target": self.target,
            "agent": self.agent,
            "agent_id": self.agent_id,
            "code": self.code.value,
            "reason": self.reason,
            "since": self.since.isoformat(),
            "unblocks": self.unblocks,
            "problems": [dict(problem) for problem in self.problems],
        }


GRACE_S = 10.0
"""A target which nobody took, or whose acknowledgement no heartbeat confirmed, for so long is worth a reason."""


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What is known of a target and its agent when reasons are asked for. Times are aware; `stale` is the heartbeat's
    age over its limit.
    """

    target: str
    agent: str
    agent_id: str
    state: TargetState
    attempts: int
    waiting_since: datetime
    applied_at: datetime | None
    last_heartbeat_at: datetime | None
    stale: bool
    observed_generation: int
    agent_state: str
    reason_code: str
    reason: str
    reason_since: datetime | None
    problems: tuple[Mapping[str, str], ...] = ()


def target_reason(facts: TargetFacts, now: datetime) -> Reason | None:
    """Return why this target does not move, or None while it does (or has arrived)."""
    if facts.state is TargetState.IN_SYNC:
        return None
    if facts.reason_code:
        return _reason(facts, ReasonCode(facts.reason_code), facts.reason, facts.reason_since or facts.waiting_since)
    if facts.state not in OPEN_TARGET:
        return None
    if facts.agent_state != "active":
        return _reason(facts, ReasonCode.AGENT_NOT_ACTIVE, f"the agent is {facts.agent_state}", facts.waiting_since)
    if facts.state is TargetState.APPLIED:
        return _applied_reason(facts, now)
    if facts.stale:
        silent_since = facts.last_heartbeat_at or facts.waiting_since
        return _reason(facts, ReasonCode.UNREACHABLE, "the agent sends no heartbeat", silent_since)
    waits_s = (now - facts.waiting_since).total_seconds()
    if facts.state is TargetState.PENDING and facts.attempts == 0 and waits_s > GRACE_S:
        return _reason(facts, ReasonCode.WAITING_FOR_WORKER, "no worker has taken this push yet", facts.waiting_since)
    return None


def _applied_reason(facts: TargetFacts, now: datetime) -> Reason | None:
    """An acknowledged policy counts once a fresh heartbeat shows it."""
    since = facts.applied_at or facts.waiting_since
    if facts.stale:
        text = "the agent acknowledged the policy, but its heartbeat is not fresh"
        return _reason(facts, ReasonCode.WAITING_FOR_HEARTBEAT, text, facts.last_heartbeat_at or since)
    if (now - since).total_seconds() > GRACE_S:
        text = f"the agent acknowledged the policy, but reports generation {facts.observed_generation}"
        return _reason(facts, ReasonCode.WAITING_FOR_HEARTBEAT, text, since)
    return None


def _reason(facts: TargetFacts, code: ReasonCode, text: str, since: datetime) -> Reason:
    return Reason(code, text, since, facts.target, facts.agent, facts.agent_id, facts.problems)
