"""Worker, Redis, agent and web are killed with SIGKILL while a rollout runs: it still ends, and each agent applies the
policy exactly once.

Failpoints hold a process still at the moment that is to be hit; the kill itself comes from outside.
"""

from collections.abc import Iterator

import httpx
import pytest

from tests.chaos.cluster import Fabric, running_fabric
from tests.support.servers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HOLD = "sleep:40"


@pytest.fixture(scope="module")
def fabric() -> Iterator[Fabric]:
    """A fabric of three agents, enrolled through its own doors."""
    with running_fabric(agents=3) as fabric:
        yield fabric


class Counters:
    """How many policies each agent has applied, before and after, over restarts."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._lines = {name: len(fabric.applied(name)) for name in fabric.agents}
        self._metric = {name: fabric.applied_total(name) for name in fabric.agents}

    def restarted(self, name: str) -> None:
        """Note that an agent's counter began anew."""
        self._metric[name] = 0

    def grew_by_one(self, *, lost_counters: tuple[str, ...] = ()) -> None:
        """Check log and metric of every agent; a counter that died with the process after applying is left out."""
        for name in self._fabric.agents:
            applied = self._fabric.applied(name)[self._lines[name] :]
            assert len(applied) == 1, f"{name} applied {applied}"
            if name not in lost_counters:
                assert self._fabric.applied_total(name) - self._metric[name] == 1, name


def succeeded(fabric: Fabric, rollout: str) -> None:
    shown = fabric.ended(rollout)
    assert shown["state"] == "succeeded", shown
    assert shown["blocked_by"] == []
    assert [target["state"] for target in fabric.targets(rollout)] == ["in_sync"] * 3


def test_rollout_without_any_trouble_applies_once(fabric: Fabric) -> None:
    counters = Counters(fabric)
    rollout = fabric.start_rollout(fabric.new_revision())
    succeeded(fabric, rollout)
    counters.grew_by_one()


@pytest.mark.parametrize("point", ["before_claim", "after_claim", "before_send", "after_send", "before_complete"])
def test_worker_killed_at_any_point_of_a_push(fabric: Fabric, point: str) -> None:
    counters, since = Counters(fabric), fabric.log_size("worker")
    fabric.kill("worker")
    fabric.start("worker", failpoints=f"rollouts.push.{point}={HOLD}")
    rollout = fabric.start_rollout(fabric.new_revision())
    fabric.reached("worker", f"rollouts.push.{point}", since)
    fabric.kill("worker")
    fabric.start("worker")
    succeeded(fabric, rollout)
    counters.grew_by_one()


@pytest.mark.parametrize("point", ["before_observe", "before_settle", "before_commit"])
def test_worker_killed_at_any_point_of_a_sweep(fabric: Fabric, point: str) -> None:
    """It dies inside the sweeper's transaction, with the rollout's row locked."""
    counters, since = Counters(fabric), fabric.log_size("worker")
    fabric.kill("worker")
    fabric.start("worker", failpoints=f"rollouts.sweep.{point}=kill")
    rollout = fabric.start_rollout(fabric.new_revision())
    fabric.reached("worker", f"rollouts.sweep.{point}", since)
    fabric.kill("worker")
    fabric.start("worker")
    succeeded(fabric, rollout)
    counters.grew_by_one()


def test_redis_killed_with_everything_in_it_while_pushes_are_under_way(fabric: Fabric) -> None:
    counters, since = Counters(fabric), fabric.log_size("worker")
    fabric.kill("worker")
    fabric.start("worker", failpoints="rollouts.push.before_send=sleep:3")
    rollout = fabric.start_rollout(fabric.new_revision())
    fabric.reached("worker", "rollouts.push.before_send", since)
    fabric.kill("redis")
    shown = fabric.rollout(rollout)  # the web answers without it
    assert shown["state"] in ("running", "succeeded")
    fabric.start("redis")
    succeeded(fabric, rollout)
    fabric.kill("worker")
    fabric.start("worker")
    counters.grew_by_one()


def test_rollout_starts_with_redis_dead_and_ends_once_it_is_back(fabric: Fabric) -> None:
    counters = Counters(fabric)
    revision = fabric.new_revision()
    fabric.kill("redis")
    rollout = fabric.start_rollout(revision)
    wait_until(lambda: all(fabric.applied_total(a) for a in fabric.agents), message="heartbeats delivering it")
    fabric.start("redis")
    succeeded(fabric, rollout)
    counters.grew_by_one()


def test_agent_killed_before_it_takes_the_policy(fabric: Fabric) -> None:
    counters = Counters(fabric)
    victim = fabric.agents[0]
    fabric.kill(victim)
    rollout = fabric.start_rollout(fabric.new_revision())
    wait_until(
        lambda: [r["code"] for r in fabric.rollout(rollout)["blocked_by"]] == ["unreachable"],
        timeout_s=30,
        message="the rollout saying which agent is unreachable",
    )
    (reason,) = fabric.rollout(rollout)["blocked_by"]
    assert reason["agent_id"] == fabric.agent_id(victim)
    assert reason["unblocks"]
    fabric.start(victim)
    counters.restarted(victim)
    succeeded(fabric, rollout)
    counters.grew_by_one()


def test_agent_killed_after_it_took_the_policy_and_before_we_noted_it(fabric: Fabric) -> None:
    """The answer was on its way. The new life runs the policy from its state directory and does not apply it again."""
    counters, since = Counters(fabric), fabric.log_size("worker")
    fabric.kill("worker")
    fabric.start("worker", failpoints=f"rollouts.push.after_send={HOLD}")
    rollout = fabric.start_rollout(fabric.new_revision())
    fabric.reached("worker", "rollouts.push.after_send", since)
    given = {target["agent"]: target["generation"] for target in fabric.targets(rollout)}
    wait_until(
        lambda: all(fabric.applied(name)[-1] == given[fabric.agent_id(name)] for name in fabric.agents),
        message="all agents applying",
    )
    victim = fabric.agents[1]
    fabric.kill(victim)
    fabric.kill("worker")
    fabric.start(victim)
    fabric.start("worker")
    succeeded(fabric, rollout)
    counters.grew_by_one(lost_counters=(victim,))
    assert fabric.applied_total(victim) == 0


def test_web_killed_after_the_commit_and_before_it_answers(fabric: Fabric) -> None:
    counters = Counters(fabric)
    revision = fabric.new_revision()
    fabric.kill("web")
    fabric.start("web", failpoints="rollouts.start.before_nudge=kill")
    with pytest.raises(httpx.HTTPError):
        fabric.start_rollout(revision)
    fabric.died("web")
    fabric.start("web")
    (rollout,) = [r["id"] for r in fabric.get("/rollouts/")["results"] if r["revision"] == revision]
    succeeded(fabric, rollout)
    counters.grew_by_one()


def test_web_killed_before_the_commit_leaves_nothing_behind(fabric: Fabric) -> None:
    counters = Counters(fabric)
    revision = fabric.new_revision()
    fabric.kill("web")
    fabric.start("web", failpoints="rollouts.start.before_commit=kill")
    with pytest.raises(httpx.HTTPError):
        fabric.start_rollout(revision)
    fabric.died("web")
    fabric.start("web")
    assert fabric.get(f"/rollouts/?revision={revision}")["count"] == 0
    succeeded(fabric, fabric.start_rollout(revision))
    counters.grew_by_one()


def test_all_of_them_killed_in_turn_while_one_rollout_runs(fabric: Fabric) -> None:
    counters, since = Counters(fabric), fabric.log_size("worker")
    fabric.kill("worker")
    fabric.start("worker", failpoints=f"rollouts.push.before_send={HOLD}")
    victim = fabric.agents[2]
    fabric.kill(victim)
    counters.restarted(victim)
    rollout = fabric.start_rollout(fabric.new_revision())
    fabric.reached("worker", "rollouts.push.before_send", since)
    for name in ("worker", "redis", "beat", "web"):
        fabric.kill(name)
    for name in ("redis", "web", victim, "worker", "beat"):
        fabric.start(name)
    succeeded(fabric, rollout)
    counters.grew_by_one()
