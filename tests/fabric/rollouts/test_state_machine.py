"""Any sequence of verbs, pushes, deaths, heartbeats and sweeps, on the real database: the table holds, nothing is
applied twice, and once everybody is back the pool runs what the last rollout says.
"""

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fabric.agents.models import Agent
from fabric.core.errors import Blocked, Conflict
from fabric.core.failpoints import FailpointError, set_failpoints
from fabric.policies.models import PoolPolicy, Revision
from fabric.pools.models import Pool
from fabric.rollouts import services
from fabric.rollouts.domain import OPEN_ROLLOUT, OPEN_TARGET, TRANSITIONS, RolloutState, Verb
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.selectors import verbs_for_rollout
from fabric.rollouts.services import pushing
from tests.fabric.rollouts.fleet import OPERATOR, Fleet, revision

AGENTS = 3
PICK = st.integers(min_value=0, max_value=7)
BY_ITSELF = {
    RolloutState.RUNNING: {RolloutState.SUCCEEDED, RolloutState.FAILED, RolloutState.SUPERSEDED},
    RolloutState.PAUSED: {RolloutState.SUPERSEDED},
}
"""Steps that no verb asks for."""
POINTS = ["push.after_claim", "push.before_send", "push.after_send", "push.before_complete"]


class RolloutMachine(RuleBasedStateMachine):
    """One pool of three agents and three revisions."""

    @initialize()
    def make_pool(self) -> None:
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.directory = tempfile.TemporaryDirectory(prefix="kvf-fleet-")
        self.fleet = Fleet(Path(self.directory.name))
        self.real_push = pushing.push_desired
        pushing.push_desired = self.fleet.push
        self.pool = self.fleet.pool(agents=AGENTS)
        self.revisions = [revision(share) for share in (0.3, 0.5, 0.7)]
        self.agents = list(Agent.objects.order_by("name"))
        self.seen: dict[Any, RolloutState] = {}
        self.generations = dict.fromkeys((agent.pk for agent in self.agents), 0)
        self.asked: tuple[Any, Verb] | None = None

    def teardown(self) -> None:
        if not hasattr(self, "transaction"):
            return
        try:
            self._everybody_comes_back()
        finally:
            set_failpoints("")
            pushing.push_desired = self.real_push
            transaction.set_rollback(True)
            self.transaction.__exit__(None, None, None)
            self.directory.cleanup()

    @rule(pick=PICK)
    def start(self, pick: int) -> None:
        new = self.revisions[pick % 3]
        running = Rollout.objects.filter(state="running").first()
        anybody = Agent.objects.filter(pool=self.pool).exists()
        try:
            services.start_rollout(actor=OPERATOR, pool_id=self.pool.pk, revision_id=new.pk)
        except Conflict:
            assert running
            assert running.revision == new
        except Blocked:
            assert not anybody
        else:
            assert anybody
            assert running is None or running.revision != new

    @precondition(lambda self: Rollout.objects.exists())
    @rule(pick=PICK, verb=st.sampled_from(list(Verb)))
    def ask(self, pick: int, verb: Verb) -> None:
        rollouts = list(Rollout.objects.order_by("-created_at"))
        rollout = rollouts[pick % len(rollouts)]
        offered = verb in verbs_for_rollout(OPERATOR, rollout)
        try:
            services.act_on_rollout(actor=OPERATOR, rollout_id=rollout.pk, verb=verb)
        except Blocked:
            assert not Agent.objects.filter(pool=self.pool).exists()
        except Conflict:
            assert not offered
        else:
            assert offered
            assert verb in TRANSITIONS[RolloutState(rollout.state)]
            self.asked = (rollout.pk, verb)

    @precondition(lambda self: RolloutTarget.objects.exists())
    @rule(pick=PICK, dies_at=st.sampled_from([None, None, *POINTS]))
    def work(self, pick: int, dies_at: str | None) -> None:
        targets = list(RolloutTarget.objects.order_by("-created_at", "agent__name"))
        set_failpoints(f"rollouts.{dies_at}=raise" if dies_at else "")
        try:
            services.push_target(target_id=targets[pick % len(targets)].pk)
        except FailpointError:
            pass
        finally:
            set_failpoints("")

    @rule(pick=PICK, deliver=st.booleans())
    def heartbeat(self, pick: int, deliver: bool) -> None:
        self.fleet.heartbeat(self.agents[pick % AGENTS], deliver=deliver)

    @rule(pick=PICK, up=st.booleans())
    def agent_goes_or_comes(self, pick: int, up: bool) -> None:
        machine = self.fleet.of(self.agents[pick % AGENTS])
        if up and not machine.up:
            machine.start()
        machine.up = up

    @rule(pick=PICK, inside=st.booleans())
    def agent_moves(self, pick: int, inside: bool) -> None:
        Agent.objects.filter(pk=self.agents[pick % AGENTS].pk).update(pool=self.pool if inside else None)

    @rule(dies_at=st.sampled_from([None, None, "sweep.before_observe", "sweep.before_settle", "sweep.before_commit"]))
    def sweep(self, dies_at: str | None) -> None:
        set_failpoints(f"rollouts.{dies_at}=raise" if dies_at else "")
        try:
            report = services.sweep_rollouts()
        finally:
            set_failpoints("")
        assert report.errors == 0 or dies_at

    @rule()
    def time_passes(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        RolloutTarget.objects.filter(state="pushing").update(lease_until=past)
        RolloutTarget.objects.filter(state="pending").update(next_attempt_at=None)

    @invariant()
    def table_holds(self) -> None:
        if not hasattr(self, "transaction"):
            return
        for rollout in Rollout.objects.all():
            state = RolloutState(rollout.state)
            before = self.seen.get(rollout.pk, RolloutState.RUNNING)
            allowed = BY_ITSELF.get(before, set()) | {before}
            if self.asked and self.asked[0] == rollout.pk:
                allowed = allowed | {TRANSITIONS[before].get(self.asked[1], before)}
            assert state in allowed, f"{before} → {state}"
            assert (rollout.ended_at is not None) == (state not in OPEN_ROLLOUT)
            self.seen[rollout.pk] = state
        self.asked = None

    @invariant()
    def one_open_rollout_and_no_open_target_outside_it(self) -> None:
        opened = Rollout.objects.filter(state__in=OPEN_ROLLOUT)
        assert opened.count() <= 1
        assert not RolloutTarget.objects.filter(state__in=OPEN_TARGET).exclude(rollout__in=opened).exists()

    @invariant()
    def generations_only_grow_and_each_is_applied_at_most_once(self) -> None:
        if not hasattr(self, "transaction"):
            return
        for agent in Agent.objects.all():
            assert agent.desired_generation >= self.generations[agent.pk]
            self.generations[agent.pk] = agent.desired_generation
            applied = self.fleet.of(agent).applied
            assert applied == sorted(set(applied))
            assert not applied or applied[-1] <= agent.desired_generation

    @invariant()
    def what_is_stuck_says_why(self) -> None:
        for target in RolloutTarget.objects.filter(state__in=["refused", "failed", "cancelled"]):
            assert target.reason_code
            assert target.reason
            assert target.reason_since

    def _everybody_comes_back(self) -> None:
        """Liveness: whatever happened, the open rollout ends, and who is in the pool runs what its last success
        says.
        """
        for agent in self.agents:
            machine = self.fleet.of(agent)
            if not machine.up:
                machine.start()
        paused = Rollout.objects.filter(state="paused").first()
        if paused:
            services.resume_rollout(actor=OPERATOR, rollout_id=paused.pk)
        for _ in range(3):
            self.time_passes()
            self.fleet.heartbeat()
            services.sweep_rollouts()
        latest = Rollout.objects.order_by("-created_at").first()
        if latest is None:
            return
        assert latest.state not in OPEN_ROLLOUT, latest.blocked_by
        running = {self.fleet.of(a).runtime.policy.digest() for a in Agent.objects.filter(pool=self.pool)}
        if latest.state == "succeeded":
            assert PoolPolicy.objects.get(pool=self.pool).current_revision == latest.revision
            assert running <= {latest.revision.digest}
        for agent in Agent.objects.all():
            machine = self.fleet.of(agent)
            if agent.desired_generation:
                assert machine.runtime.applied_digest == agent.desired_digest


@pytest.mark.django_db
@pytest.mark.parametrize("examples", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_rollouts_hold_their_table_under_any_sequence(examples: int) -> None:
    run_state_machine_as_test(
        RolloutMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    assert not Rollout.objects.exists()
    assert not Pool.objects.exists()
    assert not Revision.objects.exists()
