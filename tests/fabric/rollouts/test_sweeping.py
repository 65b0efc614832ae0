"""The sweeper: what it finds, what it ends, what it says about the rest."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from fabric.agents.models import Agent, AgentState
from fabric.audit.models import AuditEntry
from fabric.policies.models import PoolPolicy
from fabric.rollouts import services
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.services import sweeping
from tests.fabric.rollouts.fleet import OPERATOR, Fleet, revision, states

pytestmark = pytest.mark.django_db


@pytest.fixture
def rollout(fleet: Fleet) -> Rollout:
    """A running rollout to three agents."""
    return services.start_rollout(actor=OPERATOR, pool_id=fleet.pool(agents=3).pk, revision_id=revision(0.5).pk)


@pytest.fixture
def nudges(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The targets that were nudged; the broker takes all of them."""
    taken: list[Any] = []

    def take(ids: list[Any]) -> int:
        taken.extend(ids)
        return len(ids)

    monkeypatch.setattr(sweeping, "nudge_targets", take)
    return taken


def codes(rollout: Rollout) -> list[str]:
    rollout.refresh_from_db()
    return [reason["code"] for reason in rollout.blocked_by]


def test_sweep_with_the_broker_down_pushes_by_itself(fleet: Fleet, rollout: Rollout) -> None:
    report = services.sweep_rollouts()
    assert (report.nudged, report.pushed, report.ended) == (0, 3, 1)
    rollout.refresh_from_db()
    assert rollout.state == "succeeded"
    assert {tuple(m.applied) for m in fleet.machines.values()} == {(1,)}


def test_sweep_pushes_a_bounded_number_by_itself(fleet: Fleet) -> None:
    services.start_rollout(actor=OPERATOR, pool_id=fleet.pool(agents=12).pk, revision_id=revision(0.5).pk)
    assert services.sweep_rollouts().pushed == sweeping.MAX_INLINE_PUSHES
    assert services.sweep_rollouts().pushed == 4


def test_sweep_with_a_broker_nudges_due_targets_only(fleet: Fleet, rollout: Rollout, nudges: list[Any]) -> None:
    first, second, third = rollout.targets.order_by("agent__name")
    now = timezone.now()
    RolloutTarget.objects.filter(pk=first.pk).update(next_attempt_at=now + timedelta(seconds=9))
    RolloutTarget.objects.filter(pk=second.pk).update(state="pushing", lease_until=now - timedelta(seconds=1))
    services.sweep_rollouts()
    assert set(nudges) == {second.pk, third.pk}
    assert fleet.pushes == []


def test_sweep_sees_policies_that_heartbeats_delivered(fleet: Fleet, rollout: Rollout, nudges: list[Any]) -> None:
    """All workers dead: the agents' own path is enough."""
    fleet.heartbeat()
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "succeeded"
    assert states(rollout) == ["in_sync"] * 3
    assert PoolPolicy.objects.get().current_revision == rollout.revision
    assert {tuple(m.applied) for m in fleet.machines.values()} == {(1,)}


def test_sweep_ends_a_rollout_once_and_audits_it(fleet: Fleet, rollout: Rollout, nudges: list[Any]) -> None:
    fleet.heartbeat()
    reports = [services.sweep_rollouts() for _ in range(3)]
    assert [r.ended for r in reports] == [1, 0, 0]
    entry = AuditEntry.objects.get(verb="end")
    assert (entry.actor_name, entry.after) == ("system", {"state": "succeeded"})
    assert AuditEntry.objects.filter(verb="set_current_revision").count() == 1


def test_sweep_calls_in_sync_only_what_a_fresh_heartbeat_shows(
    fleet: Fleet, rollout: Rollout, nudges: list[Any]
) -> None:
    for target in rollout.targets.all():
        services.push_target(target_id=target.pk)
    silent_since = timezone.now() - timedelta(seconds=60)
    Agent.objects.update(last_heartbeat_at=silent_since)
    services.sweep_rollouts()
    assert states(rollout) == ["applied"] * 3
    assert codes(rollout) == ["waiting_for_heartbeat"] * 3
    assert rollout.blocked_by[0]["since"] == silent_since.isoformat()
    fleet.heartbeat()
    services.sweep_rollouts()
    assert codes(rollout) == []
    assert rollout.state == "succeeded"


def test_sweep_says_which_agent_is_unreachable_since_when_and_what_helps(fleet: Fleet, rollout: Rollout) -> None:
    down = Agent.objects.order_by("name")[1]
    fleet.of(down).up = False
    services.sweep_rollouts()
    fleet.heartbeat()
    services.sweep_rollouts()
    assert states(rollout) == ["in_sync", "pending", "in_sync"]
    assert codes(rollout) == ["unreachable"]
    (reason,) = rollout.blocked_by
    target = rollout.targets.get(agent=down)
    assert (reason["target"], reason["agent"], reason["agent_id"]) == (str(target.pk), down.name, str(down.pk))
    assert target.reason_since
    assert reason["since"] == target.reason_since.isoformat()
    assert "Start the agent" in reason["unblocks"]
    fleet.of(down).up = True
    fleet.heartbeat()
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert (rollout.state, rollout.blocked_by) == ("succeeded", [])
    assert fleet.of(down).applied == [1]


def test_sweep_says_that_no_worker_takes_the_work(fleet: Fleet, rollout: Rollout, nudges: list[Any]) -> None:
    now = timezone.now() + timedelta(seconds=20)
    Agent.objects.update(last_heartbeat_at=now)
    services.sweep_rollouts(now=now)
    assert codes(rollout) == ["waiting_for_worker"] * 3


def test_sweep_shows_a_silent_agent_before_any_push_was_tried(
    fleet: Fleet, rollout: Rollout, nudges: list[Any]
) -> None:
    Agent.objects.filter(name="pool-a-agent-0").update(last_heartbeat_at=timezone.now() - timedelta(seconds=30))
    services.sweep_rollouts()
    assert codes(rollout) == ["unreachable"]


def test_sweep_fails_a_rollout_whose_agent_refused_and_shows_the_fields(fleet: Fleet, rollout: Rollout) -> None:
    picky = Agent.objects.order_by("name")[2]
    problem = {"field": "tiers.dram.capacity.bytes", "problem": "too much", "remedy": "give less"}
    RolloutTarget.objects.filter(agent=picky).update(
        state="refused", reason_code="refused", reason="no", reason_since=timezone.now(), problems=[problem]
    )
    Agent.objects.filter(pk=picky.pk).update(capabilities={})
    fleet.heartbeat(*Agent.objects.exclude(pk=picky.pk))
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "failed"
    assert [(r["code"], r["agent"], r["problems"]) for r in rollout.blocked_by] == [("refused", picky.name, [problem])]
    assert PoolPolicy.objects.get().current_revision is None


def test_sweep_fails_a_target_after_the_attempts_cap_and_keeps_the_cause(
    fleet: Fleet, rollout: Rollout, tune: Any
) -> None:
    tune(rollout_max_attempts=2)
    down = Agent.objects.order_by("name")[0]
    fleet.of(down).up = False
    for _ in range(3):
        services.sweep_rollouts()
        fleet.heartbeat()
        RolloutTarget.objects.update(next_attempt_at=None)
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "failed"
    assert states(rollout) == ["failed", "in_sync", "in_sync"]
    (reason,) = rollout.blocked_by
    assert reason["code"] == "attempts_exhausted"
    assert "nothing listens" in reason["reason"]
    assert fleet.pushes.count((down.pk, 1)) == 2


def test_sweep_fails_a_rollout_without_progress_at_its_deadline(
    fleet: Fleet, rollout: Rollout, tune: Any, nudges: list[Any]
) -> None:
    tune(rollout_progress_deadline_s=60.0)
    down = Agent.objects.order_by("name")[0]
    fleet.of(down).up = False
    services.push_target(target_id=rollout.targets.get(agent=down).pk)
    fleet.heartbeat()
    services.sweep_rollouts()
    rollout.refresh_from_db()
    progress = rollout.last_progress_at
    assert progress > rollout.created_at
    services.sweep_rollouts(now=progress + timedelta(seconds=59))
    assert states(rollout)[0] == "pending"
    services.sweep_rollouts(now=progress + timedelta(seconds=61))
    rollout.refresh_from_db()
    assert rollout.state == "failed"
    (reason,) = rollout.blocked_by
    assert reason["code"] == "progress_deadline"
    assert "60 s" in reason["reason"]
    assert "nothing listens" in reason["reason"]


def test_paused_time_does_not_count_for_the_deadline(
    fleet: Fleet, rollout: Rollout, tune: Any, nudges: list[Any]
) -> None:
    tune(rollout_progress_deadline_s=60.0)
    services.pause_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    services.sweep_rollouts(now=timezone.now() + timedelta(days=1))
    rollout.refresh_from_db()
    assert rollout.state == "paused"
    Rollout.objects.update(last_progress_at=timezone.now() - timedelta(days=1))
    services.resume_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "running"


def test_agent_that_leaves_the_pool_does_not_hold_up_the_others(
    fleet: Fleet, rollout: Rollout, nudges: list[Any]
) -> None:
    gone = Agent.objects.order_by("name")[0]
    Agent.objects.filter(pk=gone.pk).update(pool=None)
    fleet.heartbeat(*Agent.objects.exclude(pk=gone.pk))
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "succeeded"
    assert states(rollout) == ["cancelled", "in_sync", "in_sync"]


def test_rollout_whose_agents_all_left_fails_and_says_so(fleet: Fleet, rollout: Rollout, nudges: list[Any]) -> None:
    Agent.objects.update(pool=None)
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "failed"
    assert codes(rollout)[0] == "no_agent_left"


def test_revoked_agent_fails_its_target_at_once(fleet: Fleet, rollout: Rollout, nudges: list[Any]) -> None:
    gone = Agent.objects.order_by("name")[0]
    Agent.objects.filter(pk=gone.pk).update(state=AgentState.REVOKED)
    services.sweep_rollouts()
    assert states(rollout) == ["failed", "pending", "pending"]
    assert codes(rollout) == ["agent_not_active"]


def test_one_broken_rollout_does_not_hold_up_the_others(
    fleet: Fleet, rollout: Rollout, monkeypatch: pytest.MonkeyPatch, nudges: list[Any]
) -> None:
    other = services.start_rollout(
        actor=OPERATOR, pool_id=fleet.pool("pool-b", agents=1).pk, revision_id=revision(0.7).pk
    )
    real = sweeping.observe_rollout

    def observe(rollout_id: Any, now: Any) -> Any:
        if rollout_id == rollout.pk:
            raise ValueError("broken")
        return real(rollout_id, now)

    monkeypatch.setattr(sweeping, "observe_rollout", observe)
    fleet.heartbeat()
    report = services.sweep_rollouts()
    assert (report.errors, report.ended) == (1, 1)
    other.refresh_from_db()
    assert other.state == "succeeded"


def test_agent_that_was_replaced_by_an_older_self_is_given_its_policy_again(
    fleet: Fleet, rollout: Rollout, nudges: list[Any]
) -> None:
    """It acknowledged, then lost its state directory before its heartbeat: not in sync until it has the policy
    again.
    """
    for target in rollout.targets.all():
        services.push_target(target_id=target.pk)
    lost = Agent.objects.order_by("name")[0]
    (fleet.of(lost).state_dir / "policy.json").unlink()
    fleet.of(lost).start()
    fleet.heartbeat(deliver=False)
    services.sweep_rollouts()
    assert states(rollout) == ["applied", "in_sync", "in_sync"]
    fleet.heartbeat()
    services.sweep_rollouts()
    assert states(rollout) == ["in_sync"] * 3


def test_sweep_command_prints_what_it_did(fleet: Fleet, rollout: Rollout, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("sweep_rollouts")
    assert "open=1 ended=1 nudged=0 pushed=3 caught_up=0 errors=0" in capsys.readouterr().out
