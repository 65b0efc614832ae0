"""What pages, API and charts read."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from fabric.agents.models import Agent
from fabric.core.errors import NotFound
from fabric.rollouts import selectors, services
from fabric.rollouts.models import Rollout
from fabric.rollouts.services.observing import observe_rollout
from tests.fabric.rollouts.fleet import OPERATOR, VIEWER, Fleet, revision

pytestmark = pytest.mark.django_db


@pytest.fixture
def rollout(fleet: Fleet) -> Rollout:
    """A running rollout to two agents."""
    return services.start_rollout(actor=OPERATOR, pool_id=fleet.pool().pk, revision_id=revision(0.5).pk)


def finish(fleet: Fleet) -> None:
    fleet.heartbeat()
    services.sweep_rollouts()


def test_overview_counts_targets_in_one_query(fleet: Fleet, rollout: Rollout, django_assert_num_queries: Any) -> None:
    fleet.heartbeat(Agent.objects.order_by("name")[0])
    observe_rollout(rollout.pk, timezone.now())
    with django_assert_num_queries(1):
        (row,) = selectors.rollouts_for_overview(VIEWER)
        counts = (row.targets_total, row.targets_in_sync, row.targets_open, row.targets_stuck)
        assert (str(row), counts) == ("default r1 → pool-a", (2, 1, 1, 0))


def test_detail_knows_the_reasons_of_now_without_any_sweeper(fleet: Fleet, rollout: Rollout) -> None:
    Agent.objects.update(last_heartbeat_at=timezone.now() - timedelta(minutes=1))
    detail = selectors.rollout_detail(VIEWER, rollout.pk)
    assert [r.code for r in detail.reasons] == ["unreachable", "unreachable"]
    assert [t.agent.name for t in detail.targets] == ["pool-a-agent-0", "pool-a-agent-1"]


def test_detail_of_an_unknown_rollout_is_not_found() -> None:
    with pytest.raises(NotFound):
        selectors.rollout_detail(VIEWER, uuid.uuid4())


def test_verbs_are_exactly_those_that_services_accept(fleet: Fleet, rollout: Rollout) -> None:
    assert selectors.verbs_for_rollout(OPERATOR, rollout) == ["pause", "abort"]
    assert selectors.verbs_for_rollout(VIEWER, rollout) == []
    finish(fleet)
    rollout.refresh_from_db()
    assert selectors.verbs_for_rollout(OPERATOR, rollout) == []  # nothing to roll back to
    second = services.start_rollout(actor=OPERATOR, pool_id=rollout.pool_id, revision_id=revision(0.7).pk)
    finish(fleet)
    second.refresh_from_db()
    assert selectors.verbs_for_rollout(OPERATOR, second) == ["roll_back"]
    services.roll_back_rollout(actor=OPERATOR, rollout_id=second.pk)
    assert selectors.verbs_for_rollout(OPERATOR, second) == []  # it is not the pool's last any more


def test_open_rollout_of_a_pool(fleet: Fleet, rollout: Rollout) -> None:
    assert selectors.open_rollout_for_pool(VIEWER, rollout.pool_id) == rollout
    finish(fleet)
    assert selectors.open_rollout_for_pool(VIEWER, rollout.pool_id) is None


def test_marks_tell_start_each_agent_and_end_in_order(
    fleet: Fleet, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rollout, "get_absolute_url", lambda self: f"/rollouts/{self.pk}/")
    since = rollout.created_at - timedelta(microseconds=1)
    finish(fleet)
    marks = selectors.rollout_marks(since)
    assert [m.kind for m in marks] == [
        "rollout_started",
        "rollout_agent_in_sync",
        "rollout_agent_in_sync",
        "rollout_succeeded",
    ]
    assert marks == sorted(marks, key=lambda m: m.at)
    assert marks[0].label == "default r1 started to pool-a"
    assert {m.url for m in marks} == {f"/rollouts/{rollout.pk}/"}
    assert selectors.rollout_marks(timezone.now()) == []
    assert selectors.rollout_marks(rollout.created_at)[0].kind == "rollout_agent_in_sync"
    agent = Agent.objects.order_by("name")[0]
    assert len(selectors.rollout_marks(since, agent_id=agent.pk)) == 3
    assert selectors.rollout_marks(since, pool_id=uuid.uuid4()) == []
    assert len(selectors.rollout_marks(since, pool_id=rollout.pool_id)) == 4
