"""Many workers, sweepers and operators at once, each in a thread with a connection of its own, on a real database.

On SQLite that is a file with the settings of production (writers queue); with DATABASE_URL it is PostgreSQL, where
row locks count.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from agent.protocol import ApplyReply
from fabric.agents.models import Agent
from fabric.audit.models import AuditEntry
from fabric.core.errors import Conflict, FabricError, StaleVersion
from fabric.rollouts import services
from fabric.rollouts.domain import OPEN_TARGET, TargetState
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.services import pushing
from fabric.rollouts.services.observing import observe_rollout
from kvcache.policy import default_policy
from tests.fabric.rollouts.fleet import OPERATOR, Fleet, revision, states

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _real_database(tmp_path: Path) -> Iterator[None]:
    """Replace the test run's in-memory SQLite, which threads cannot share, by a file with the same schema."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    memory = connections["default"]
    path = tmp_path / "concurrent.sqlite3"
    with sqlite3.connect(path) as file:
        memory.connection.backup(file)
    file.close()
    name = memory.settings_dict["NAME"]
    del connections["default"]
    connections.settings["default"]["NAME"] = str(path)
    try:
        yield
    finally:
        connections["default"].close()
        del connections["default"]
        connections.settings["default"]["NAME"] = name
        connections["default"] = memory


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at the same moment; return their results, or the `FabricError` that one raised."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()  # else the time to connect would spread the calls
            barrier.wait(10)
            return call()
        except FabricError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(60) for future in [pool.submit(run, call) for call in calls]]


def start(fleet: Fleet, agents: int = 1) -> Rollout:
    pool = fleet.pool(agents=agents)
    return services.start_rollout(actor=OPERATOR, pool_id=pool.pk, revision_id=revision(0.5).pk)


def test_parallel_claims_of_one_target_have_exactly_one_owner(fleet: Fleet) -> None:
    target = start(fleet).targets.get()
    results = together(*[lambda: services.push_target(target_id=target.pk)] * 8)
    assert sorted(results, key=str) == [None] * 7 + [TargetState.APPLIED]
    target.refresh_from_db()
    assert (target.epoch, target.attempts) == (1, 1)
    assert fleet.pushes == [(target.agent_id, 1)]


def test_parallel_claims_of_an_expired_lease_have_exactly_one_owner(fleet: Fleet) -> None:
    target = start(fleet).targets.get()
    RolloutTarget.objects.update(state="pushing", epoch=3, lease_until=timezone.now() - timedelta(seconds=1))
    results = together(*[lambda: services.push_target(target_id=target.pk)] * 6)
    assert sum(result is not None for result in results) == 1
    target.refresh_from_db()
    assert target.epoch == 4


def test_claims_that_wait_at_one_locked_row_have_exactly_one_owner(fleet: Fleet) -> None:
    """All have read the row and stand in the same UPDATE when the lock opens: PostgreSQL must look at the row again."""
    target = start(fleet).targets.get()
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            RolloutTarget.objects.select_for_update().get(pk=target.pk)
            locked.set()
            assert release.wait(10)

    def claim() -> TargetState | None:
        assert locked.wait(10)
        return services.push_target(target_id=target.pk)

    def opener() -> None:
        assert locked.wait(10)
        time.sleep(0.5)
        release.set()

    results = together(hold, opener, *[claim] * 5)[2:]
    assert sum(result is not None for result in results) == 1
    assert fleet.pushes == [(target.agent_id, 1)]


def test_workers_over_many_targets_push_each_once(fleet: Fleet) -> None:
    rollout = start(fleet, agents=12)
    ids = list(rollout.targets.values_list("pk", flat=True))

    def worker() -> int:
        return sum(services.push_target(target_id=pk) is not None for pk in ids)

    assert sum(together(*[worker] * 8)) == 12
    assert len(fleet.pushes) == 12
    assert {tuple(m.applied) for m in fleet.machines.values()} == {(1,)}


def test_sweepers_at_once_end_a_rollout_once(fleet: Fleet) -> None:
    rollout = start(fleet, agents=4)
    fleet.heartbeat()
    reports = together(*[services.sweep_rollouts] * 4)
    assert sum(report.ended for report in reports) == 1
    assert sum(report.errors for report in reports) == 0
    rollout.refresh_from_db()
    assert (rollout.state, rollout.version) == ("succeeded", 2)
    assert AuditEntry.objects.filter(verb="end").count() == 1
    assert AuditEntry.objects.filter(verb="set_current_revision").count() == 1


def test_sweepers_and_workers_at_once_lose_nothing(fleet: Fleet) -> None:
    rollout = start(fleet, agents=6)
    ids = list(rollout.targets.values_list("pk", flat=True))

    def worker() -> None:
        for pk in ids:
            services.push_target(target_id=pk)

    def heartbeats() -> None:
        fleet.heartbeat(deliver=False)

    for _ in range(3):
        together(worker, worker, services.sweep_rollouts, services.sweep_rollouts, heartbeats)
    services.sweep_rollouts()
    rollout.refresh_from_db()
    assert rollout.state == "succeeded"
    assert states(rollout) == ["in_sync"] * 6
    assert {tuple(m.applied) for m in fleet.machines.values()} == {(1,)}


def test_operators_who_start_at_once_leave_one_open_rollout(fleet: Fleet) -> None:
    pool = fleet.pool(agents=3)
    new = [revision(share) for share in (0.3, 0.4, 0.6, 0.7)]
    together(
        *[
            lambda r=r: services.start_rollout(actor=OPERATOR, pool_id=pool.pk, revision_id=r.pk)  # type: ignore[misc]
            for r in new
        ]
    )
    assert Rollout.objects.count() == 4
    running = Rollout.objects.get(state="running")
    assert Rollout.objects.filter(state="superseded").count() == 3
    assert not RolloutTarget.objects.exclude(rollout=running).filter(state__in=OPEN_TARGET).exists()
    assert {a.desired_digest for a in Agent.objects.all()} == {running.revision.digest}
    generations = RolloutTarget.objects.values_list("agent", "generation")
    assert len(set(generations)) == 12
    assert {t.generation for t in running.targets.all()} == {4}


def test_double_click_on_start_makes_one_rollout(fleet: Fleet) -> None:
    pool, new = fleet.pool(), revision(0.5)
    results = together(*[lambda: services.start_rollout(actor=OPERATOR, pool_id=pool.pk, revision_id=new.pk)] * 4)
    assert sum(isinstance(result, Rollout) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 3
    assert Rollout.objects.count() == 1


def test_verbs_at_once_take_one_step_each(fleet: Fleet) -> None:
    rollout = start(fleet, agents=2)
    steps = [services.pause_rollout, services.abort_rollout, services.pause_rollout, services.abort_rollout]
    results = together(
        *[lambda s=s: s(actor=OPERATOR, rollout_id=rollout.pk, expected_version=1) for s in steps]  # type: ignore[misc]
    )
    assert sum(isinstance(result, Rollout) for result in results) == 1
    assert sum(isinstance(result, StaleVersion) for result in results) == 3
    rollout.refresh_from_db()
    assert rollout.version == 2


@pytest.mark.parametrize("attempt", range(5))
def test_abort_against_push_never_leaves_the_aborted_policy_in_force(fleet: Fleet, attempt: int) -> None:
    rollout = start(fleet, agents=3)
    ids = list(rollout.targets.values_list("pk", flat=True))

    def worker() -> None:
        for pk in ids:
            services.push_target(target_id=pk)

    together(
        worker,
        worker,
        lambda: services.abort_rollout(actor=OPERATOR, rollout_id=rollout.pk),
        services.sweep_rollouts,
        lambda: fleet.heartbeat(deliver=False),
    )
    rollout.refresh_from_db()
    assert rollout.state in ("aborted", "succeeded")
    fleet.heartbeat()
    for target in rollout.targets.select_related("agent"):
        machine = fleet.of(target.agent)
        assert machine.applied == sorted(set(machine.applied)), "a generation was applied twice or backwards"
        expected = rollout.revision.digest if target.state == "in_sync" else default_policy().digest()
        assert machine.runtime.policy.digest() == expected


def test_push_that_is_sent_while_the_rollout_is_aborted_is_fenced(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker hangs in its HTTP call; meanwhile the rollout is aborted and the agent put back; then the message
    goes out.
    """
    rollout = start(fleet)
    target = rollout.targets.get()
    sending, aborted = threading.Event(), threading.Event()

    def slow(agent: Agent) -> ApplyReply:
        sending.set()
        assert aborted.wait(10)
        return fleet.push(agent)

    monkeypatch.setattr(pushing, "push_desired", slow)

    def operator() -> None:
        assert sending.wait(10)
        services.abort_rollout(actor=OPERATOR, rollout_id=rollout.pk)
        fleet.heartbeat()
        aborted.set()

    result, _ = together(lambda: services.push_target(target_id=target.pk), operator)
    assert result is None
    assert states(rollout) == ["cancelled"]
    assert fleet.of(target.agent).applied == [2]


def test_observing_skips_what_another_sweeper_holds(fleet: Fleet) -> None:
    """On SQLite writers queue instead of skipping: both ways the second one finds nothing left to end."""
    rollout = start(fleet)
    fleet.heartbeat()
    results = together(*[lambda: observe_rollout(rollout.pk, timezone.now())] * 3)
    assert results.count("succeeded") == 1
    assert results.count(None) == 2


def test_new_members_are_caught_up_once_by_many_sweepers(fleet: Fleet) -> None:
    rollout = start(fleet)
    fleet.heartbeat()
    services.sweep_rollouts()
    agent = fleet.agent(rollout.pool, "newcomer")
    assert sum(together(*[services.reconcile_pool_members] * 4)) == 1
    agent.refresh_from_db()
    assert agent.desired_generation == 1


def test_sqlite_runs_with_productions_settings() -> None:
    """Otherwise the tests above would not show that writers wait for each other."""
    if connection.vendor != "sqlite":
        pytest.skip("this run is on PostgreSQL")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
