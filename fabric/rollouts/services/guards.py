"""Checks and locks that the verbs share."""

from uuid import UUID

from fabric.core.actor import Actor, Role
from fabric.core.checks import checked_text
from fabric.core.errors import Conflict, Invalid, NotAllowed, NotFound, Problem, StaleVersion
from fabric.rollouts.domain import TRANSITIONS, RolloutState, Verb
from fabric.rollouts.models import Rollout


def require_operator(actor: Actor) -> None:
    """Raise `NotAllowed` unless the actor may change the fabric."""
    if not actor.may(Role.OPERATOR):
        raise NotAllowed(f"{actor.name} may look at rollouts but not steer them: that needs the operator role.")


def checked_reason(reason: str) -> str:
    """Return the reason without blanks around it. Raises `Invalid` when it is too long."""
    problems: list[Problem] = []
    reason = checked_text(reason, "reason", problems)
    if problems:
        raise Invalid("The reason cannot be stored like this.", problems)
    return reason


def locked_rollout(rollout_id: UUID, expected_version: int | None = None) -> Rollout:
    """Return the rollout, locked until the transaction ends. Raises `NotFound`, `StaleVersion`."""
    rollout = (
        Rollout.objects.select_for_update(of=("self",))
        .select_related("pool", "revision__policy", "previous_revision__policy")
        .filter(pk=rollout_id)
        .first()
    )
    if rollout is None:
        raise NotFound("There is no such rollout.")
    if expected_version is not None and rollout.version != expected_version:
        raise StaleVersion("The rollout has moved on since you read it: reload and look again.")
    return rollout


def next_state(rollout: Rollout, verb: Verb) -> RolloutState:
    """Return the state that `verb` leads to. Raises `Conflict` where the table has no such step."""
    steps = TRANSITIONS[RolloutState(rollout.state)]
    if verb not in steps:
        can = ", ".join(steps) or "nothing any more"
        problem = Problem("state", f"a {rollout.state} rollout cannot {verb.replace('_', ' ')}", f"it can: {can}")
        raise Conflict(f"The rollout is {rollout.state}: {verb.replace('_', ' ')} is not possible.", [problem])
    return steps[verb]
