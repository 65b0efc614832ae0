"""Rollouts through the REST API."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from fabric.agents.models import Agent
from fabric.core.actor import Role
from fabric.rollouts import services
from fabric.rollouts.models import Rollout
from tests.fabric.rollouts.doors import Door
from tests.fabric.rollouts.fleet import Fleet, revision

pytestmark = pytest.mark.django_db


@pytest.fixture
def door() -> Door:
    """An operator's client."""
    return Door()


@pytest.fixture
def started(fleet: Fleet, door: Door) -> dict[str, Any]:
    """A rollout to two agents, started through the API."""
    body = {"pool": str(fleet.pool().pk), "revision": str(revision(0.5).pk), "reason": "more room"}
    reply = door.post("/rollouts/", body)
    assert reply.status_code == 201, reply.content
    return dict(reply.json()) | {"etag": reply["ETag"]}


def test_start_answers_with_the_rollout(started: dict[str, Any]) -> None:
    assert started["state"] == "running"
    assert started["reason"] == "more room"
    assert started["revision_name"] == "default r1"
    assert (started["targets_total"], started["targets_open"]) == (2, 2)
    assert started["verbs"] == ["pause", "abort"]
    assert started["blocked_by"] == []
    assert started["etag"] == '"1"'


def test_detail_and_list_show_progress_and_reasons(fleet: Fleet, door: Door, started: dict[str, Any]) -> None:
    down = Agent.objects.order_by("name")[0]
    fleet.of(down).up = False
    services.sweep_rollouts()
    fleet.heartbeat()
    services.sweep_rollouts()
    detail = door.get(f"/rollouts/{started['id']}/").json()
    (reason,) = detail["blocked_by"]
    assert (reason["code"], reason["agent"], reason["agent_id"]) == ("unreachable", down.name, str(down.pk))
    assert reason["unblocks"]
    assert detail["targets_in_sync"] == 1
    (row,) = door.get("/rollouts/").json()["results"]
    assert row["blocked_by"] == detail["blocked_by"]


def test_detail_has_reasons_with_no_sweeper_alive(door: Door, started: dict[str, Any]) -> None:
    Agent.objects.update(last_heartbeat_at=timezone.now() - timedelta(minutes=1))
    detail = door.get(f"/rollouts/{started['id']}/").json()
    assert [reason["code"] for reason in detail["blocked_by"]] == ["unreachable"] * 2


def test_targets_are_listed_with_what_unblocks_them(fleet: Fleet, door: Door, started: dict[str, Any]) -> None:
    down = Agent.objects.order_by("name")[0]
    fleet.of(down).up = False
    services.sweep_rollouts()
    body = door.get(f"/rollouts/{started['id']}/targets/").json()
    assert body["count"] == 2
    first = body["results"][0]
    assert (first["agent_name"], first["state"], first["reason_code"]) == (down.name, "pending", "unreachable")
    assert "Start the agent" in first["unblocks"]
    assert door.get(f"/rollouts/{started['id']}/targets/?state=in_sync").json()["count"] == 1
    assert door.get(f"/rollouts/{uuid.uuid4()}/targets/").status_code == 404


def test_verbs_walk_the_table(fleet: Fleet, door: Door, started: dict[str, Any]) -> None:
    path = f"/rollouts/{started['id']}"
    paused = door.post(f"{path}/pause/", {"reason": "peak"})
    assert (paused.status_code, paused.json()["state"], paused["ETag"]) == (200, "paused", '"2"')
    assert paused.json()["blocked_by"][0]["code"] == "paused"
    assert door.post(f"{path}/resume/").json()["state"] == "running"
    again = door.post(f"{path}/resume/")
    assert again.status_code == 409
    assert again.json()["problems"][0]["remedy"] == "it can: pause, abort"
    aborted = door.post(f"{path}/abort/")
    assert (aborted.json()["state"], aborted.json()["verbs"]) == ("aborted", [])


def test_roll_back_answers_with_the_new_rollout(fleet: Fleet, door: Door, started: dict[str, Any]) -> None:
    fleet.heartbeat()
    services.sweep_rollouts()
    body = {"pool": started["pool"], "revision": str(revision(0.7).pk)}
    second = door.post("/rollouts/", body).json()
    fleet.heartbeat()
    services.sweep_rollouts()
    assert door.get(f"/rollouts/{second['id']}/").json()["verbs"] == ["roll_back"]
    reply = door.post(f"/rollouts/{second['id']}/roll_back/", {"reason": "worse"})
    assert reply.status_code == 201
    assert (reply.json()["rolls_back"], reply.json()["revision"]) == (second["id"], started["revision"])
    assert door.get(f"/rollouts/{second['id']}/").json()["verbs"] == []


def test_verb_with_an_old_etag_is_refused(door: Door, started: dict[str, Any]) -> None:
    path = f"/rollouts/{started['id']}"
    assert door.post(f"{path}/pause/", If_Match=started["etag"]).status_code == 200
    stale = door.post(f"{path}/resume/", If_Match=started["etag"])
    assert stale.status_code == 412
    assert Rollout.objects.get().state == "paused"
    assert door.post(f"{path}/resume/", If_Match="nonsense").status_code == 400


def test_start_to_an_empty_pool_says_what_to_do(fleet: Fleet, door: Door) -> None:
    reply = door.post("/rollouts/", {"pool": str(fleet.pool(agents=0).pk), "revision": str(revision().pk)})
    assert reply.status_code == 409
    assert reply["Content-Type"] == "application/problem+json"
    assert reply.json()["type"].endswith("blocked")
    assert "join token" in reply.json()["problems"][0]["remedy"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "pool"),
        ({"pool": "x", "revision": str(uuid.uuid4())}, "pool"),
        ({"pool": str(uuid.uuid4()), "revision": str(uuid.uuid4()), "wave": 1}, "wave"),
        ({"pool": str(uuid.uuid4()), "revision": str(uuid.uuid4()), "reason": "x" * 2001}, "reason"),
        ({"pool": str(uuid.uuid4()), "revision": str(uuid.uuid4()), "reason": 5}, "reason"),
    ],
)
def test_start_with_a_bad_body_names_the_field(door: Door, body: dict[str, Any], field: str) -> None:
    reply = door.post("/rollouts/", body)
    assert reply.status_code == 400
    assert field in [problem["field"] for problem in reply.json()["problems"]]
    assert not Rollout.objects.exists()


def test_list_filters_by_pool_and_state_and_refuses_unknown_parameters(door: Door, started: dict[str, Any]) -> None:
    assert door.get(f"/rollouts/?pool={started['pool']}&state=running&state=paused").json()["count"] == 1
    assert door.get("/rollouts/?state=failed").json()["count"] == 0
    assert door.get("/rollouts/?state=nonsense").status_code == 400
    assert door.get("/rollouts/?stat=failed").status_code == 400


def test_list_costs_the_same_number_of_queries_for_many(
    fleet: Fleet, door: Door, django_assert_max_num_queries: Any
) -> None:
    for number in range(6):
        pool = fleet.pool(f"pool-{number}", agents=1)
        door.post("/rollouts/", {"pool": str(pool.pk), "revision": str(revision(0.1 + number / 10).pk)})
    with django_assert_max_num_queries(8):
        assert len(door.get("/rollouts/").json()["results"]) == 6


@pytest.mark.parametrize("verb", ["pause", "resume", "abort", "roll_back"])
def test_viewers_may_read_and_nothing_else(door: Door, started: dict[str, Any], verb: str) -> None:
    viewer = Door(Role.VIEWER)
    assert viewer.get(f"/rollouts/{started['id']}/").json()["verbs"] == []
    assert viewer.post(f"/rollouts/{started['id']}/{verb}/").status_code == 403
    body = {"pool": started["pool"], "revision": started["revision"]}
    assert viewer.post("/rollouts/", body).status_code == 403
    assert list(Rollout.objects.values_list("state", "version")) == [("running", 1)]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["", "x/", "x/pause/", "x/resume/", "x/abort/", "x/roll_back/", "x/targets/"])
def test_nothing_answers_without_credentials(started: dict[str, Any], path: str, method: str) -> None:
    reply = Door(None).ask(method, "/rollouts/" + path.replace("x", started["id"]), {})
    assert reply.status_code in (401, 403, 405)
    assert Rollout.objects.get().state == "running"
