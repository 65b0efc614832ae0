"""What people decide about agents: trust, name, pool."""

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from fabric.agents.domain import TRUST_TRANSITIONS, TrustVerb
from fabric.agents.models import Agent, AgentState
from fabric.agents.services.access import drop_access_tokens
from fabric.audit.services import record
from fabric.core.actor import Actor, Role
from fabric.core.checks import checked_line
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound, Problem, StaleVersion
from fabric.pools.models import Pool

_NEEDED = {TrustVerb.APPROVE: Role.ADMIN, TrustVerb.UNLOCK: Role.ADMIN, TrustVerb.REVOKE: Role.OPERATOR}
"""Giving trust is for admins, taking it away for operators too: at night the one who sees it must be able to stop
it.
"""


def approve_agent(*, actor: Actor, agent_id: UUID, reason: str = "") -> Agent:
    """Let a pending or denied agent in. Raises `Blocked` while another agent with its serial number is active."""
    return _decide(actor, agent_id, TrustVerb.APPROVE, reason)


def unlock_agent(*, actor: Actor, agent_id: UUID, reason: str = "") -> Agent:
    """Trust a locked agent again. Every token ends; the copy that recovers first goes on, so end the other one
    before.
    """
    return _decide(actor, agent_id, TrustVerb.UNLOCK, reason)


def revoke_agent(*, actor: Actor, agent_id: UUID, reason: str = "") -> Agent:
    """End the trust in an agent, for good and at once: nothing it sends is stored, nothing is pushed to it."""
    return _decide(actor, agent_id, TrustVerb.REVOKE, reason)


def update_agent(
    *,
    actor: Actor,
    agent_id: UUID,
    name: str | None = None,
    pool_id: UUID | None = None,
    leave_pool: bool = False,
    expected_version: int | None = None,
    reason: str = "",
) -> Agent:
    """Rename an agent, or move it to a pool (`leave_pool`: to none); what is not given stays.

    What it should run changes when the new pool's keeper (rollouts) sees it there.

    Raises:
        NotAllowed, NotFound, StaleVersion, Invalid, Conflict (name taken).
    """
    if not actor.may(Role.OPERATOR):
        raise NotAllowed(f"{actor.name} may look at agents but not change them: that needs the operator role.")
    try:
        with transaction.atomic():
            agent = _locked(agent_id, expected_version)
            before = {"name": agent.name, "pool": agent.pool.name if agent.pool else None}
            _apply(agent, name, pool_id, leave_pool)
            after = {"name": agent.name, "pool": agent.pool.name if agent.pool else None}
            changed = {key: value for key, value in after.items() if value != before[key]}
            if changed:
                agent.version += 1
                agent.save(update_fields=["name", "pool", "version", "updated_at"])
                verb = "move" if "pool" in changed else "update"
                old = {key: before[key] for key in changed}
                record(actor=actor, verb=verb, obj=agent, before=old, after=changed, reason=reason)
    except IntegrityError:
        problem = Problem("name", "another agent has this name", "choose another name")
        raise Conflict("There is such an agent already.", [problem]) from None
    return agent


def delete_agent(*, actor: Actor, agent_id: UUID, expected_version: int | None = None, reason: str = "") -> None:
    """Forget an agent that is not trusted, with its part in past rollouts. Raises `Blocked` for one that is."""
    if not actor.may(Role.OPERATOR):
        raise NotAllowed(f"{actor.name} may not remove agents: that needs the operator role.")
    with transaction.atomic():
        agent = _locked(agent_id, expected_version)
        if agent.state in (AgentState.ACTIVE, AgentState.LOCKED):
            problem = Problem("state", f"it is {agent.state}", "revoke it first")
            raise Blocked(f"Agent {agent.name} is still trusted, or its fate is open.", [problem])
        before: dict[str, Any] = {"name": agent.name, "state": agent.state, "serial": agent.serial}
        record(actor=actor, verb="delete", obj=agent, before=before, after={}, reason=reason)
        agent.delete()


def _decide(actor: Actor, agent_id: UUID, verb: TrustVerb, reason: str) -> Agent:
    if not actor.may(_NEEDED[verb]):
        raise NotAllowed(f"{actor.name} may not {verb} agents: that needs the {_NEEDED[verb]} role.")
    try:
        with transaction.atomic():
            agent = _locked(agent_id, None)
            before = {"state": agent.state}
            agent.state = _next_state(agent, verb)
            if agent.state == AgentState.ACTIVE:
                _require_only_one(agent)
            if verb is TrustVerb.UNLOCK:
                agent.join_seq, agent.boot_conflicts = 0, 0
                agent.previous_boot_id = agent.boot_id = ""
                agent.cred_epoch += 1
                drop_access_tokens(agent)
            agent.version += 1
            agent.save()
            record(actor=actor, verb=verb.value, obj=agent, before=before, after={"state": agent.state}, reason=reason)
    except IntegrityError:
        raise Conflict("Another agent with this serial number became active meanwhile: look again.") from None
    return agent


def _next_state(agent: Agent, verb: TrustVerb) -> str:
    steps = TRUST_TRANSITIONS[agent.state]
    if verb not in steps:
        can = ", ".join(steps) or "nothing any more"
        problem = Problem(
            "state", f"{'an' if agent.state[0] in 'a' else 'a'} {agent.state} agent cannot be {verb}d", f"it can: {can}"
        )
        raise Conflict(f"Agent {agent.name} is {agent.state}: {verb} is not possible.", [problem])
    return steps[verb]


def _require_only_one(agent: Agent) -> None:
    if not agent.serial:
        return
    twin = Agent.objects.filter(serial=agent.serial, state=AgentState.ACTIVE).exclude(pk=agent.pk).first()
    if twin is not None:
        problem = Problem(
            "serial", f"agent {twin.name} is active with it", "revoke that agent first, if this is the real one"
        )
        raise Blocked(f"Serial number {agent.serial} is in use.", [problem])


def _apply(agent: Agent, name: str | None, pool_id: UUID | None, leave_pool: bool) -> None:
    problems: list[Problem] = []
    if name is not None:
        agent.name = checked_line(name, "name", problems)
    if leave_pool:
        agent.pool = None
    elif pool_id is not None:
        pool = Pool.objects.select_for_update().filter(pk=pool_id).first()
        if pool is None:
            problems.append(Problem("pool", "there is no such pool", "choose one that exists"))
        else:
            agent.pool = pool
    if problems:
        raise Invalid("The agent cannot be stored like this.", problems)


def _locked(agent_id: UUID, expected_version: int | None) -> Agent:
    agent = Agent.objects.select_for_update(of=("self",)).select_related("pool").filter(pk=agent_id).first()
    if agent is None:
        raise NotFound("There is no such agent.")
    if expected_version is not None and agent.version != expected_version:
        raise StaleVersion(f"Agent {agent.name} was changed since you read it: reload and try again.")
    return agent
