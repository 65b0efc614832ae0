"""One push: claims, fences, and what each answer of an agent comes to."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agent.protocol import ApplyReply, ApplyState, FieldProblem
from fabric.agents.client import AgentRefused
from fabric.agents.models import Agent, AgentState
from fabric.core.failpoints import FailpointError, set_failpoints
from fabric.rollouts import services
from fabric.rollouts.domain import TargetState
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.services import pushing
from kvcache.policy import default_policy
from tests.fabric.rollouts.fleet import OPERATOR, Fleet, revision, states

pytestmark = pytest.mark.django_db


@pytest.fixture
def target(fleet: Fleet) -> RolloutTarget:
    """The one target of a running rollout."""
    rollout = services.start_rollout(actor=OPERATOR, pool_id=fleet.pool(agents=1).pk, revision_id=revision(0.5).pk)
    return rollout.targets.get()


def push(target: RolloutTarget) -> TargetState | None:
    state = services.push_target(target_id=target.pk)
    target.refresh_from_db()
    return state


def due_again(target: RolloutTarget) -> None:
    RolloutTarget.objects.filter(pk=target.pk).update(next_attempt_at=None)


def test_push_applies_and_records_what_the_agent_runs(fleet: Fleet, target: RolloutTarget) -> None:
    assert push(target) is TargetState.APPLIED
    assert (target.state, target.epoch, target.attempts, target.lease_until) == ("applied", 1, 1, None)
    agent = Agent.objects.get()
    assert (agent.observed_generation, agent.applied_digest) == (1, target.digest)
    assert fleet.of(agent).applied == [1]


def test_push_again_has_nothing_to_do(fleet: Fleet, target: RolloutTarget) -> None:
    push(target)
    assert push(target) is None
    assert len(fleet.pushes) == 1


def test_push_after_the_heartbeat_was_faster_sends_nothing(fleet: Fleet, target: RolloutTarget) -> None:
    fleet.heartbeat()
    assert push(target) is TargetState.APPLIED
    assert fleet.pushes == []
    assert fleet.of(target.agent).applied == [1]


def test_push_while_the_heartbeat_delivers_applies_once(fleet: Fleet, target: RolloutTarget) -> None:
    """The agent took the generation by heartbeat, but its report has not arrived yet: the push is acknowledged, not
    applied.
    """
    machine = fleet.of(target.agent)
    fleet.heartbeat()
    Agent.objects.update(observed_generation=0, applied_digest="")
    assert push(target) is TargetState.APPLIED
    assert len(fleet.pushes) == 1
    assert machine.applied == [1]


def test_push_to_an_unreachable_agent_backs_off_with_a_reason(fleet: Fleet, target: RolloutTarget) -> None:
    fleet.of(target.agent).up = False
    before = timezone.now()
    assert push(target) is TargetState.PENDING
    assert (target.reason_code, target.reason) == ("unreachable", "nothing listens at its management port")
    assert target.next_attempt_at
    assert timedelta(seconds=0.9) < target.next_attempt_at - before < timedelta(seconds=2)
    assert push(target) is None  # not due yet
    since = target.reason_since
    due_again(target)
    push(target)
    assert target.attempts == 2
    assert target.reason_since == since  # the same trouble since the first time
    assert target.next_attempt_at - timezone.now() > timedelta(seconds=1.5)
    fleet.of(target.agent).up = True
    due_again(target)
    assert push(target) is TargetState.APPLIED
    assert (target.reason_code, target.reason, target.reason_since) == ("", "", None)


@pytest.mark.parametrize(("code", "shown"), [("not-believed", "not_believed"), ("not-understood", "not_understood")])
def test_push_that_is_not_believed_or_understood_says_so(
    target: RolloutTarget, monkeypatch: pytest.MonkeyPatch, code: str, shown: str
) -> None:
    def refuse(agent: Agent) -> ApplyReply:
        raise AgentRefused(code, "403: signed by an unknown key")

    monkeypatch.setattr(pushing, "push_desired", refuse)
    assert push(target) is TargetState.PENDING
    assert target.reason_code == shown
    assert "unknown key" in target.reason


def test_push_that_is_refused_names_the_fields(target: RolloutTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = FieldProblem(field="tiers.dram.capacity.bytes", problem="more than the limit", remedy="give less")
    reply = ApplyReply(state=ApplyState.REFUSED, observed_generation=0, problems=[problem])
    monkeypatch.setattr(pushing, "push_desired", lambda agent: reply)
    assert push(target) is TargetState.REFUSED
    assert target.problems == [problem.model_dump()]
    assert "tiers.dram.capacity.bytes: more than the limit" in target.reason
    assert target.ended_at
    assert push(target) is None


def test_push_of_a_document_too_large_is_refused_by_the_real_agent(fleet: Fleet, target: RolloutTarget) -> None:
    """Capabilities were fine when the rollout started; the agent came back smaller."""
    big = revision(policy="big").document | {}
    big["tiers"]["dram"]["capacity"] = {"bytes": 1 << 40}
    Agent.objects.update(desired_document=big, desired_digest=_digest(big))
    RolloutTarget.objects.update(digest=_digest(big))
    assert push(target) is TargetState.REFUSED
    assert target.problems[0]["field"] == "tiers.dram.capacity.bytes"
    assert fleet.of(target.agent).applied == []
    assert fleet.of(target.agent).runtime.policy == default_policy()


def _digest(document: dict[str, Any]) -> str:
    from kvcache.policy import parse_policy

    return parse_policy(document).digest()


@pytest.mark.parametrize(
    ("reply", "state", "code"),
    [
        ({"state": "stale", "observed_generation": 7, "applied_digest": "sha256:" + "0" * 64}, "failed", "agent_ahead"),
        ({"state": "applied", "observed_generation": 1}, "failed", "digest_mismatch"),
        ({"state": "applied", "observed_generation": 0}, "pending", "refused"),
    ],
)
def test_push_with_an_odd_answer_is_not_taken_for_success(
    target: RolloutTarget, monkeypatch: pytest.MonkeyPatch, reply: dict[str, Any], state: str, code: str
) -> None:
    monkeypatch.setattr(pushing, "push_desired", lambda agent: ApplyReply.model_validate(reply))
    push(target)
    assert (target.state, target.reason_code) == (state, code)


def test_push_to_an_agent_that_left_the_pool_is_cancelled(fleet: Fleet, target: RolloutTarget) -> None:
    Agent.objects.update(pool=None)
    assert push(target) is TargetState.CANCELLED
    assert target.reason_code == "left_pool"
    assert fleet.pushes == []


def test_push_of_an_older_generation_than_desired_is_superseded(fleet: Fleet, target: RolloutTarget) -> None:
    Agent.objects.update(desired_generation=2)
    assert push(target) is TargetState.SUPERSEDED
    assert fleet.pushes == []


@pytest.mark.parametrize(
    ("agent_state", "expected"),
    [(AgentState.LOCKED, "pending"), (AgentState.PENDING, "pending"), (AgentState.REVOKED, "failed")],
)
def test_push_to_an_agent_without_trust_is_not_sent(
    fleet: Fleet, target: RolloutTarget, agent_state: AgentState, expected: str
) -> None:
    Agent.objects.update(state=agent_state)
    push(target)
    assert (target.state, target.reason_code) == (expected, "agent_not_active")
    assert fleet.pushes == []


def test_late_worker_after_abort_cannot_bring_the_policy_back(
    fleet: Fleet, target: RolloutTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has read the row and is about to send when the rollout is aborted and the agent has already been
    put back.
    """

    def send_late(agent: Agent) -> ApplyReply:
        services.abort_rollout(actor=OPERATOR, rollout_id=target.rollout_id)
        fleet.heartbeat()
        return fleet.push(agent)  # the row as it was read before the abort

    monkeypatch.setattr(pushing, "push_desired", send_late)
    assert push(target) is None
    assert fleet.pushes == [(target.agent_id, 1)]
    assert target.state == "cancelled"
    machine = fleet.of(target.agent)
    assert machine.applied == [2]
    assert machine.runtime.policy == default_policy()


def test_late_worker_that_wins_the_race_to_the_agent_is_put_right_by_the_heartbeat(
    fleet: Fleet, target: RolloutTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_late(agent: Agent) -> ApplyReply:
        services.abort_rollout(actor=OPERATOR, rollout_id=target.rollout_id)
        return fleet.push(agent)

    monkeypatch.setattr(pushing, "push_desired", send_late)
    assert push(target) is None
    assert target.state == "cancelled"
    fleet.heartbeat()
    machine = fleet.of(target.agent)
    assert machine.applied == [1, 2]
    assert machine.runtime.policy == default_policy()


def test_late_worker_after_its_lease_leaves_the_outcome_to_the_next_owner(
    fleet: Fleet, target: RolloutTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_lease(agent: Agent) -> ApplyReply:
        monkeypatch.setattr(pushing, "push_desired", fleet.push)
        RolloutTarget.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert services.push_target(target_id=target.pk) is TargetState.APPLIED
        return fleet.push(agent)

    monkeypatch.setattr(pushing, "push_desired", lose_lease)
    assert push(target) is None
    assert (target.state, target.epoch, target.attempts) == ("applied", 2, 2)
    assert len(fleet.pushes) == 2
    assert fleet.of(target.agent).applied == [1]


def test_claim_within_anothers_lease_is_refused(fleet: Fleet, target: RolloutTarget) -> None:
    RolloutTarget.objects.update(state="pushing", lease_until=timezone.now() + timedelta(seconds=9))
    assert push(target) is None
    assert target.epoch == 0


@pytest.mark.parametrize("point", ["before_claim", "after_claim", "before_send", "after_send", "before_complete"])
def test_worker_that_dies_anywhere_loses_nothing_and_applies_once(
    fleet: Fleet, target: RolloutTarget, point: str
) -> None:
    set_failpoints(f"rollouts.push.{point}=raise")
    with pytest.raises(FailpointError):
        services.push_target(target_id=target.pk)
    set_failpoints("")
    RolloutTarget.objects.filter(state="pushing").update(lease_until=timezone.now() - timedelta(seconds=1))
    fleet.heartbeat(deliver=False)
    for _ in range(2):
        push(target)
        fleet.heartbeat(deliver=False)
        services.sweep_rollouts()
    assert Rollout.objects.get().state == "succeeded"
    assert states(target.rollout) == ["in_sync"]
    assert fleet.of(target.agent).applied == [1]


def test_push_beyond_the_attempts_cap_is_not_claimed(fleet: Fleet, target: RolloutTarget, tune: Any) -> None:
    tune(rollout_max_attempts=2)
    fleet.of(target.agent).up = False
    for _ in range(4):
        push(target)
        due_again(target)
    assert len(fleet.pushes) == 2
    assert (target.state, target.attempts) == ("pending", 2)
