"""Starting a rollout and rolling one back."""

import uuid

import pytest
from django.utils import timezone

from fabric.agents.models import Agent, AgentState
from fabric.audit.models import AuditEntry
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound, StaleVersion
from fabric.core.failpoints import FailpointError, set_failpoints
from fabric.policies.models import PoolPolicy
from fabric.pools.models import Pool
from fabric.rollouts import services
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.services.observing import observe_rollout
from kvcache.policy import default_policy
from tests.fabric.rollouts.fleet import OPERATOR, VIEWER, Fleet, revision, states

pytestmark = pytest.mark.django_db


def start(pool: Pool, to: object, reason: str = "") -> Rollout:
    return services.start_rollout(actor=OPERATOR, pool_id=pool.pk, revision_id=to.pk, reason=reason)  # type: ignore[attr-defined]


def finish(fleet: Fleet) -> None:
    fleet.heartbeat()
    services.sweep_rollouts()


def test_start_gives_every_active_agent_a_generation_and_a_target(fleet: Fleet) -> None:
    pool, new = fleet.pool(agents=3), revision(0.5)
    fleet.agent(pool, "locked", state=AgentState.LOCKED)
    fleet.agent(None, "elsewhere")
    rollout = start(pool, new, "more room")
    targets = list(rollout.targets.select_related("agent"))
    assert [t.agent.name for t in targets] == ["pool-a-agent-0", "pool-a-agent-1", "pool-a-agent-2"]
    for target in targets:
        assert (target.agent.desired_generation, target.agent.desired_digest) == (target.generation, new.digest)
        assert target.agent.desired_document == new.document
    assert Agent.objects.get(name="locked").desired_generation == 0
    assert rollout.state == "running"
    entry = AuditEntry.objects.get(verb="start")
    assert (entry.actor_name, entry.reason, entry.after["agents"]) == ("olga", "more room", 3)


def test_start_assigns_the_revisions_policy_to_the_pool(fleet: Fleet) -> None:
    pool = fleet.pool()
    start(pool, revision(0.5, policy="other"))
    row = PoolPolicy.objects.get(pool=pool)
    assert row.policy.name == "other"
    assert row.current_revision is None


def test_start_with_an_empty_pool_is_blocked_and_says_what_to_do(fleet: Fleet) -> None:
    pool = fleet.pool(agents=0)
    with pytest.raises(Blocked) as error:
        start(pool, revision())
    assert "join token" in error.value.problems[0].remedy
    assert not Rollout.objects.exists()


def test_start_with_what_an_agent_cannot_enforce_names_agent_engine_and_knob(fleet: Fleet) -> None:
    pool = fleet.pool(agents=2)
    small = {"engine": "valkey", "tiers": ["dram"], "evictions": ["lru"], "dram_limit_bytes": 1000}
    small |= {"flash_limit_bytes": 0, "max_value_bytes": 1000}
    fleet.agent(pool, "small", capabilities=small)
    new = revision(0.5, eviction="fifo")
    with pytest.raises(Invalid) as error:
        start(pool, new)
    (problem,) = error.value.problems
    assert problem.field == "tiers.dram.eviction"
    assert "small" in problem.problem
    assert "valkey" in problem.problem
    assert "fifo" in problem.problem
    assert Agent.objects.filter(desired_generation__gt=0).count() == 0


def test_start_supersedes_the_open_rollout_and_its_unfinished_targets(fleet: Fleet) -> None:
    pool = fleet.pool(agents=3)
    old = start(pool, revision(0.3))
    first, second, _ = Agent.objects.order_by("name")
    services.push_target(target_id=old.targets.get(agent=first).pk)
    fleet.heartbeat(first)
    observe_rollout(old.pk, timezone.now())
    services.push_target(target_id=old.targets.get(agent=second).pk)
    assert states(old) == ["in_sync", "applied", "pending"]
    new = start(pool, revision(0.4))
    old.refresh_from_db()
    assert old.state == "superseded"
    assert old.ended_at
    assert old.blocked_by[0]["code"] == "superseded"
    assert states(old) == ["in_sync", "superseded", "superseded"]
    finish(fleet)
    new.refresh_from_db()
    assert new.state == "succeeded"
    assert all(a.observed_generation == a.desired_generation for a in Agent.objects.all())


def test_start_remembers_what_ran_before_also_across_a_superseded_rollout(fleet: Fleet) -> None:
    pool = fleet.pool(agents=1)
    first = start(pool, revision(0.3))
    assert first.targets.get().previous_digest == default_policy().digest()
    second = start(pool, revision(0.4))  # the agent never took 0.3
    assert second.targets.get().previous_digest == default_policy().digest()
    finish(fleet)
    third = start(pool, revision(0.6))
    assert third.targets.get().previous_digest == second.revision.digest


def test_start_of_what_is_on_its_way_already_conflicts(fleet: Fleet) -> None:
    pool, new = fleet.pool(), revision(0.5)
    rollout = start(pool, new)
    with pytest.raises(Conflict, match="on its way") as error:
        start(pool, new)
    assert str(rollout.pk) in error.value.problems[0].problem


def test_start_again_after_success_gives_new_generations(fleet: Fleet) -> None:
    pool, new = fleet.pool(agents=1), revision(0.5)
    start(pool, new)
    finish(fleet)
    again = start(pool, new)
    finish(fleet)
    again.refresh_from_db()
    assert again.state == "succeeded"
    assert [t.generation for t in RolloutTarget.objects.order_by("generation")] == [1, 2]


def test_start_is_all_or_nothing(fleet: Fleet) -> None:
    pool, new = fleet.pool(), revision(0.5)
    set_failpoints("rollouts.start.before_commit=raise")
    with pytest.raises(FailpointError):
        start(pool, new)
    assert not Rollout.objects.exists()
    assert not Agent.objects.filter(desired_generation__gt=0).exists()
    assert not AuditEntry.objects.filter(verb="start").exists()


def test_start_by_a_viewer_is_not_allowed(fleet: Fleet) -> None:
    pool, new = fleet.pool(), revision(0.5)
    with pytest.raises(NotAllowed):
        services.start_rollout(actor=VIEWER, pool_id=pool.pk, revision_id=new.pk)
    assert not Rollout.objects.exists()


def test_start_of_unknown_pool_or_revision_is_not_found(fleet: Fleet) -> None:
    pool, new = fleet.pool(), revision(0.5)
    with pytest.raises(NotFound, match="pool"):
        services.start_rollout(actor=OPERATOR, pool_id=uuid.uuid4(), revision_id=new.pk)
    with pytest.raises(NotFound, match="revision"):
        services.start_rollout(actor=OPERATOR, pool_id=pool.pk, revision_id=uuid.uuid4())


def test_start_with_a_reason_too_long_is_invalid(fleet: Fleet) -> None:
    pool, new = fleet.pool(), revision(0.5)
    with pytest.raises(Invalid):
        start(pool, new, "x" * 2001)


def test_roll_back_starts_a_new_rollout_of_the_revision_before(fleet: Fleet) -> None:
    pool, old, new = fleet.pool(), revision(0.3), revision(0.5)
    start(pool, old)
    finish(fleet)
    rollout = start(pool, new)
    finish(fleet)
    back = services.roll_back_rollout(actor=OPERATOR, rollout_id=rollout.pk, reason="worse")
    assert (back.revision, back.rolls_back, back.previous_revision) == (old, rollout, new)
    finish(fleet)
    assert PoolPolicy.objects.get(pool=pool).current_revision == old
    assert all(m.runtime.applied_digest == old.digest for m in fleet.machines.values())
    assert {tuple(m.applied) for m in fleet.machines.values()} == {(1, 2, 3)}
    rollout.refresh_from_db()
    assert rollout.state == "succeeded"
    assert list(rollout.rolled_back_by.all()) == [back]


def test_roll_back_of_anything_but_the_last_rollout_conflicts(fleet: Fleet) -> None:
    pool = fleet.pool()
    start(pool, revision(0.3))
    finish(fleet)
    second = start(pool, revision(0.5))
    finish(fleet)
    start(pool, revision(0.6))
    finish(fleet)
    with pytest.raises(Conflict, match="last rollout"):
        services.roll_back_rollout(actor=OPERATOR, rollout_id=second.pk)


def test_roll_back_with_nothing_before_conflicts(fleet: Fleet) -> None:
    pool = fleet.pool()
    rollout = start(pool, revision(0.3))
    finish(fleet)
    with pytest.raises(Conflict, match="nothing to roll back"):
        services.roll_back_rollout(actor=OPERATOR, rollout_id=rollout.pk)


def test_roll_back_of_a_running_rollout_conflicts_and_says_what_it_can(fleet: Fleet) -> None:
    rollout = start(fleet.pool(), revision(0.3))
    with pytest.raises(Conflict) as error:
        services.roll_back_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    assert error.value.problems[0].remedy == "it can: pause, abort"


def test_roll_back_with_an_old_version_is_stale(fleet: Fleet) -> None:
    rollout = start(fleet.pool(), revision(0.3))
    finish(fleet)
    with pytest.raises(StaleVersion):
        services.roll_back_rollout(actor=OPERATOR, rollout_id=rollout.pk, expected_version=rollout.version)
