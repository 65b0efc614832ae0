"""Pause, resume, abort: what they do to rows, and what an agent gets from its own heartbeat afterwards."""

import uuid

import pytest
from django.utils import timezone

from fabric.agents.models import Agent
from fabric.audit.models import AuditEntry
from fabric.core.errors import Conflict, NotAllowed, NotFound, StaleVersion
from fabric.core.failpoints import FailpointError, set_failpoints
from fabric.rollouts import services
from fabric.rollouts.domain import TRANSITIONS, RolloutState, Verb
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.selectors import verbs_for_rollout
from fabric.rollouts.services.observing import observe_rollout
from kvcache.policy import default_policy
from tests.fabric.rollouts.fleet import OPERATOR, VIEWER, Fleet, revision, states

pytestmark = pytest.mark.django_db


def start(fleet: Fleet, agents: int = 2) -> Rollout:
    pool = fleet.pool(agents=agents)
    return services.start_rollout(actor=OPERATOR, pool_id=pool.pk, revision_id=revision(0.5).pk)


def push_first(rollout: Rollout) -> RolloutTarget:
    target = rollout.targets.order_by("agent__name").first()
    assert target
    services.push_target(target_id=target.pk)
    return target


def test_pause_holds_back_the_push_and_the_heartbeat(fleet: Fleet) -> None:
    rollout = start(fleet)
    services.pause_rollout(actor=OPERATOR, rollout_id=rollout.pk, reason="peak hours")
    for target in rollout.targets.all():
        assert services.push_target(target_id=target.pk) is None
    fleet.heartbeat()
    services.sweep_rollouts()
    assert fleet.pushes == []
    assert states(rollout) == ["pending", "pending"]
    assert {m.runtime.policy.digest() for m in fleet.machines.values()} == {default_policy().digest()}
    rollout.refresh_from_db()
    (reason,) = rollout.blocked_by
    assert (reason["code"], reason["target"]) == ("paused", None)
    assert "peak hours" in reason["reason"]
    assert "esume" in reason["unblocks"]


def test_pause_leaves_what_was_acknowledged_on_its_way_to_in_sync(fleet: Fleet) -> None:
    rollout = start(fleet)
    first = push_first(rollout)
    services.pause_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    fleet.heartbeat()
    services.sweep_rollouts()
    assert states(rollout) == ["in_sync", "pending"]
    first.refresh_from_db()
    assert first.restored_generation is None
    rollout.refresh_from_db()
    assert rollout.state == "paused"


def test_pause_leaves_what_a_heartbeat_has_already_delivered(fleet: Fleet) -> None:
    rollout = start(fleet, agents=1)
    fleet.heartbeat()
    services.pause_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    assert Agent.objects.get().desired_digest == rollout.revision.digest


def test_resume_delivers_under_a_new_generation_and_ends(fleet: Fleet) -> None:
    rollout = start(fleet)
    services.pause_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    fleet.heartbeat()
    paused_progress = Rollout.objects.get(pk=rollout.pk).last_progress_at
    resumed = services.resume_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    assert resumed.last_progress_at > paused_progress
    assert resumed.blocked_by == []
    for target in rollout.targets.all():
        assert services.push_target(target_id=target.pk) == "applied"
    fleet.heartbeat()
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "succeeded"
    assert {tuple(m.applied) for m in fleet.machines.values()} == {
        (2, 3)
    }  # restored, then given again; 1 never arrived


def test_pause_and_resume_before_the_agent_noticed_leaves_one_apply(fleet: Fleet) -> None:
    rollout = start(fleet, agents=1)
    services.pause_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    services.resume_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    push_first(rollout)
    fleet.heartbeat()
    (machine,) = fleet.machines.values()
    assert machine.applied == [3]


def test_abort_cancels_and_heartbeats_bring_agents_back(fleet: Fleet) -> None:
    rollout = start(fleet, agents=3)
    first, second, third = Agent.objects.order_by("name")
    push_first(rollout)
    fleet.heartbeat(first)
    observe_rollout(rollout.pk, timezone.now())
    services.push_target(target_id=rollout.targets.get(agent=second).pk)
    aborted = services.abort_rollout(actor=OPERATOR, rollout_id=rollout.pk, reason="wrong one")
    assert aborted.state == "aborted"
    assert aborted.ended_at
    assert "wrong one" in aborted.blocked_by[0]["reason"]
    assert states(rollout) == ["in_sync", "cancelled", "cancelled"]
    fleet.heartbeat()
    fleet.heartbeat()
    running = {a.name: fleet.of(a).runtime.policy.digest() for a in (first, second, third)}
    assert running[first.name] == rollout.revision.digest  # stays until roll_back
    assert running[second.name] == running[third.name] == default_policy().digest()
    generations = [t.generation for t in rollout.targets.order_by("agent__name")]
    restored = [t.restored_generation for t in rollout.targets.order_by("agent__name")]
    assert (generations, restored) == ([1, 1, 1], [None, 2, 2])


def test_abort_takes_back_what_an_agent_refused(fleet: Fleet) -> None:
    """Else every heartbeat would offer the refused document for ever."""
    rollout = start(fleet, agents=2)
    agent = Agent.objects.order_by("name")[0]
    RolloutTarget.objects.filter(rollout=rollout, agent=agent).update(state="refused")
    services.abort_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    assert states(rollout) == ["refused", "cancelled"]
    assert {a.desired_digest for a in Agent.objects.all()} == {default_policy().digest()}


def test_abort_of_a_paused_rollout_gives_no_further_generation(fleet: Fleet) -> None:
    rollout = start(fleet, agents=1)
    services.pause_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    services.abort_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    assert Agent.objects.get().desired_generation == 2
    assert states(rollout) == ["cancelled"]


def test_abort_leaves_agents_that_moved_to_another_pool(fleet: Fleet) -> None:
    rollout = start(fleet, agents=2)
    moved = Agent.objects.order_by("name")[0]
    Agent.objects.filter(pk=moved.pk).update(pool=fleet.pool("pool-b", agents=0))
    services.abort_rollout(actor=OPERATOR, rollout_id=rollout.pk)
    moved.refresh_from_db()
    assert moved.desired_generation == 1
    assert states(rollout) == ["cancelled", "cancelled"]


@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.RESUME, Verb.ABORT])
@pytest.mark.parametrize("state", list(RolloutState))
def test_verb_is_accepted_exactly_where_the_table_has_it(fleet: Fleet, state: RolloutState, verb: Verb) -> None:
    rollout = start(fleet, agents=1)
    Rollout.objects.filter(pk=rollout.pk).update(state=state)
    if verb in TRANSITIONS[state]:
        after = services.act_on_rollout(actor=OPERATOR, rollout_id=rollout.pk, verb=verb)
        assert after.state == TRANSITIONS[state][verb]
        assert after.version == rollout.version + 1
        assert AuditEntry.objects.filter(verb=verb, object_id=rollout.pk).count() == 1
    else:
        with pytest.raises(Conflict):
            services.act_on_rollout(actor=OPERATOR, rollout_id=rollout.pk, verb=verb)
        rollout.refresh_from_db()
        assert (rollout.state, rollout.version) == (state, 1)


@pytest.mark.parametrize("verb", list(Verb))
def test_verb_of_a_viewer_is_not_allowed_and_changes_nothing(fleet: Fleet, verb: Verb) -> None:
    rollout = start(fleet, agents=1)
    with pytest.raises(NotAllowed):
        services.act_on_rollout(actor=VIEWER, rollout_id=rollout.pk, verb=verb)
    rollout.refresh_from_db()
    assert (rollout.state, rollout.version) == ("running", 1)
    assert verbs_for_rollout(VIEWER, rollout) == []


@pytest.mark.parametrize("verb", list(Verb))
def test_verb_on_an_unknown_rollout_is_not_found(verb: Verb) -> None:
    with pytest.raises(NotFound):
        services.act_on_rollout(actor=OPERATOR, rollout_id=uuid.uuid4(), verb=verb)


def test_verb_with_an_old_version_is_stale(fleet: Fleet) -> None:
    rollout = start(fleet, agents=1)
    services.pause_rollout(actor=OPERATOR, rollout_id=rollout.pk, expected_version=1)
    with pytest.raises(StaleVersion):
        services.resume_rollout(actor=OPERATOR, rollout_id=rollout.pk, expected_version=1)


@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.ABORT])
def test_verb_is_all_or_nothing(fleet: Fleet, verb: Verb) -> None:
    rollout = start(fleet)
    set_failpoints(f"rollouts.{verb}.before_commit=raise")
    with pytest.raises(FailpointError):
        services.act_on_rollout(actor=OPERATOR, rollout_id=rollout.pk, verb=verb)
    rollout.refresh_from_db()
    assert rollout.state == "running"
    assert states(rollout) == ["pending", "pending"]
    assert {a.desired_generation for a in Agent.objects.all()} == {1}
