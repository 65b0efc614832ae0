"""States and verbs of a rollout, each table once: used by services, API, buttons, docs and property tests."""

from collections.abc import Mapping
from enum import StrEnum


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
"""Rolling back starts a *new* rollout of the pool's previous revision; the old one keeps its state and says by whom it was followed."""


def allowed_verbs(state: RolloutState) -> list[Verb]:
    """Return the verbs that `state` accepts, in the order in which buttons stand."""
    return list(TRANSITIONS[state])
