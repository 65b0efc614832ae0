"""Agents that come into a pool between rollouts are given what the pool runs."""

import pytest
from django.utils import timezone

from fabric.agents.models import Agent, AgentState
from fabric.audit.models import AuditEntry
from fabric.pools.models import Pool
from fabric.rollouts import services
from fabric.rollouts.models import Rollout
from fabric.rollouts.services.observing import observe_rollout
from kvcache.policy import default_policy
from tests.fabric.rollouts.fleet import OPERATOR, Fleet, revision

pytestmark = pytest.mark.django_db


@pytest.fixture
def rolled_out(fleet: Fleet) -> Rollout:
    """A pool of two agents that runs its first revision."""
    rollout = services.start_rollout(actor=OPERATOR, pool_id=fleet.pool().pk, revision_id=revision(0.5).pk)
    fleet.heartbeat()
    services.sweep_rollouts()
    return rollout


def test_new_member_gets_the_pools_current_revision(fleet: Fleet, rolled_out: Rollout) -> None:
    agent = fleet.agent(rolled_out.pool, "newcomer")
    assert services.reconcile_pool_members() == 1
    fleet.heartbeat()
    assert fleet.of(agent).runtime.applied_digest == rolled_out.revision.digest
    entry = AuditEntry.objects.get(verb="catch_up")
    assert (entry.actor_name, entry.after["agents"]) == ("system", ["newcomer"])
    assert services.reconcile_pool_members() == 0


def test_member_that_moved_in_from_another_pool_gets_this_pools_revision(fleet: Fleet, rolled_out: Rollout) -> None:
    other = fleet.pool("pool-b", agents=1)
    second = services.start_rollout(actor=OPERATOR, pool_id=other.pk, revision_id=revision(0.7).pk)
    fleet.heartbeat()
    services.sweep_rollouts()
    Agent.objects.filter(pool=other).update(pool=rolled_out.pool)
    assert services.sweep_rollouts().caught_up == 1
    fleet.heartbeat()
    assert {m.runtime.applied_digest for m in fleet.machines.values()} == {rolled_out.revision.digest}
    second.refresh_from_db()
    assert second.state == "succeeded"


def test_new_member_of_a_pool_that_runs_nothing_yet_is_left_alone(fleet: Fleet) -> None:
    fleet.pool()
    assert services.reconcile_pool_members() == 0


def test_new_member_waits_while_a_rollout_is_open(fleet: Fleet, rolled_out: Rollout) -> None:
    rollout = services.start_rollout(actor=OPERATOR, pool_id=rolled_out.pool_id, revision_id=revision(0.7).pk)
    agent = fleet.agent(rolled_out.pool, "newcomer")
    assert services.reconcile_pool_members() == 0
    fleet.heartbeat()
    services.sweep_rollouts()
    agent.refresh_from_db()
    assert agent.desired_digest == rollout.revision.digest


@pytest.mark.parametrize("state", [AgentState.PENDING, AgentState.LOCKED, AgentState.REVOKED])
def test_new_member_without_trust_gets_nothing(fleet: Fleet, rolled_out: Rollout, state: AgentState) -> None:
    fleet.agent(rolled_out.pool, "stranger", state=state)
    assert services.reconcile_pool_members() == 0


def test_what_an_aborted_rollout_left_is_the_operators_to_decide(fleet: Fleet, rolled_out: Rollout) -> None:
    """One agent runs the new revision, the other was put back: neither is touched behind the operator's back."""
    rollout = services.start_rollout(actor=OPERATOR, pool_id=rolled_out.pool_id, revision_id=revision(0.7).pk)
    first, second = Agent.objects.order_by("name")
    fleet.heartbeat(first)
    observe_rollout(rollout.pk, timezone.now())
    services.abort_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    newcomer = fleet.agent(rolled_out.pool, "newcomer")
    assert services.reconcile_pool_members() == 1
    fleet.heartbeat()
    digests = [fleet.of(agent).runtime.applied_digest for agent in (first, second, newcomer)]
    assert digests == [rollout.revision.digest, rolled_out.revision.digest, rolled_out.revision.digest]


def test_agent_that_failed_and_came_back_keeps_what_the_failed_rollout_gave_it(
    fleet: Fleet, rolled_out: Rollout
) -> None:
    rollout = services.start_rollout(actor=OPERATOR, pool_id=rolled_out.pool_id, revision_id=revision(0.7).pk)
    rollout.targets.update(state="failed")
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "failed"
    assert services.reconcile_pool_members() == 0
    back = services.roll_back_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    fleet.heartbeat()
    services.sweep_rollouts()
    back.refresh_from_db()
    assert back.state == "succeeded"
    assert {m.runtime.applied_digest for m in fleet.machines.values()} == {rolled_out.revision.digest}


def test_new_member_that_cannot_enforce_it_shows_its_refusal_once(fleet: Fleet, rolled_out: Rollout) -> None:
    agent = fleet.agent(rolled_out.pool, "newcomer", desired_digest=default_policy().digest())
    services.reconcile_pool_members()
    agent.refresh_from_db()
    generation = agent.desired_generation
    services.sweep_rollouts()
    agent.refresh_from_db()
    assert agent.desired_generation == generation


def test_pools_are_caught_up_one_by_one(fleet: Fleet, rolled_out: Rollout) -> None:
    other = fleet.pool("pool-b", agents=1)
    services.start_rollout(actor=OPERATOR, pool_id=other.pk, revision_id=revision(0.7).pk)
    fleet.heartbeat()
    services.sweep_rollouts()
    for pool in Pool.objects.all():
        fleet.agent(pool, f"newcomer-{pool.name}")
    assert services.reconcile_pool_members() == 2
    assert AuditEntry.objects.filter(verb="catch_up").count() == 2
