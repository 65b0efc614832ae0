"""Reads of policies. Every function takes the actor; any signed-in role may read policies."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Max, Prefetch, QuerySet

from fabric.agents.models import Agent, AgentState
from fabric.core.actor import Actor
from fabric.core.errors import NotFound
from fabric.policies.domain import AgentProblem, capabilities_of, problems_for_capabilities
from fabric.policies.models import Policy, PoolPolicy, Revision
from fabric.pools.models import Pool
from kvcache.policy import FieldChange, PolicyDocument, diff, json_schema, parse_policy


def policies_for_list(actor: Actor) -> QuerySet[Policy]:
    """Return every policy with `latest_number` and, prefetched, the pools that run it with their current revisions."""
    pools = PoolPolicy.objects.select_related("pool", "current_revision__policy").order_by("pool__name")
    policies = Policy.objects.annotate(latest_number=Max("revisions__number")).order_by("name")
    return policies.prefetch_related(Prefetch("pool_policies", queryset=pools))


def policy_detail(actor: Actor, policy_id: UUID) -> Policy:
    """Return one policy as `policies_for_list` gives it. Raises `NotFound`."""
    policy = policies_for_list(actor).filter(pk=policy_id).first()
    if policy is None:
        raise NotFound("There is no such policy.")
    return policy


def revisions_for_policy(actor: Actor, policy_id: UUID) -> QuerySet[Revision]:
    """Return a policy's revisions, newest first."""
    return Revision.objects.select_related("policy").filter(policy_id=policy_id).order_by("-number")


def revision_detail(actor: Actor, policy_id: UUID, number: int) -> Revision:
    """Return one revision by its number. Raises `NotFound`."""
    revision = revisions_for_policy(actor, policy_id).filter(number=number).first()
    if revision is None:
        raise NotFound(f"The policy has no revision {number}.")
    return revision


def latest_revision(actor: Actor, policy_id: UUID) -> Revision | None:
    """Return a policy's newest revision, or None while it has none."""
    return revisions_for_policy(actor, policy_id).first()


def pool_policy_for_pool(actor: Actor, pool_id: UUID) -> PoolPolicy | None:
    """Return which policy and revision a pool runs, or None while it was given none."""
    return (
        PoolPolicy.objects.select_related("pool", "policy", "current_revision__policy").filter(pool_id=pool_id).first()
    )


def revision_diff(before: Revision, after: Revision) -> list[FieldChange]:
    """Return every field that differs between two revisions, sorted by dotted path."""
    return diff(parse_policy(before.document), parse_policy(after.document))


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of the policy document, of which forms are made."""
    return json_schema()


def problems_for_pool(document: PolicyDocument, pool: Pool) -> list[AgentProblem]:
    """Return what the active agents of `pool` cannot enforce of `document`: agent, engine and knob, in order of
    agents' names.
    """
    return problems_for_agents(document, Agent.objects.filter(pool=pool, state=AgentState.ACTIVE).order_by("name"))


def problems_for_agents(document: PolicyDocument, agents: Iterable[Agent]) -> list[AgentProblem]:
    """Return what `agents` cannot enforce of `document`. One that declared nothing is asked by the push itself."""
    found = []
    for agent in agents:
        capabilities = capabilities_of(agent.capabilities)
        if capabilities is None:
            continue
        found += [
            AgentProblem(str(agent.pk), agent.name, capabilities.engine, p.field, p.problem, p.remedy)
            for p in problems_for_capabilities(document, capabilities)
        ]
    return found


@dataclass(frozen=True, slots=True)
class Validation:
    """What is known of a document before it is stored: its digest and canonical form, and who could not enforce it."""

    digest: str
    document: dict[str, Any]
    problems: list[AgentProblem]


def validation_for_pool(actor: Actor, document: PolicyDocument, pool_id: UUID | None) -> Validation:
    """Check `document` against the agents of a pool (None: against no pool). Raises `NotFound`."""
    problems: list[AgentProblem] = []
    if pool_id is not None:
        pool = Pool.objects.filter(pk=pool_id).first()
        if pool is None:
            raise NotFound("There is no such pool.")
        problems = problems_for_pool(document, pool)
    return Validation(document.digest(), document.as_dict(), problems)
