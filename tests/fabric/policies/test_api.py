"""Policies through the REST API."""

import uuid
from typing import Any

import pytest

from fabric.agents.models import Agent
from fabric.core.actor import Role
from fabric.policies.models import Policy, Revision
from fabric.pools.models import Pool
from tests.fabric.rollouts.doors import Door

pytestmark = pytest.mark.django_db
DOCUMENT = {"version": "fabric/v1", "tiers": {"dram": {"capacity": {"share": 0.5}}}}
CAPABILITIES = {
    "engine": "valkey",
    "tiers": ["dram"],
    "evictions": ["lru"],
    "dram_limit_bytes": 1000,
    "flash_limit_bytes": 0,
    "max_value_bytes": 1000,
}


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def policy(door: Door) -> dict[str, Any]:
    reply = door.post("/policies/", {"name": "chat"})
    assert reply.status_code == 201, reply.content
    return dict(reply.json()) | {"etag": reply["ETag"]}


def write(door: Door, policy: dict[str, Any], body: dict[str, Any], etag: str | None = None) -> Any:
    return door.post(f"/policies/{policy['id']}/revisions/", body, If_Match=etag or policy["etag"])


def test_policy_lives_from_create_to_delete(door: Door, policy: dict[str, Any]) -> None:
    path = f"/policies/{policy['id']}/"
    assert (policy["name"], policy["latest_number"], policy["pools"]) == ("chat", None, [])
    assert door.ask("PATCH", path, {"description": "x"}).status_code == 428
    changed = door.ask("PATCH", path, {"description": "x"}, If_Match=policy["etag"])
    assert (changed.status_code, changed.json()["description"], changed["ETag"]) == (200, "x", '"2"')
    assert door.ask("PATCH", path, {"description": "y"}, If_Match=policy["etag"]).status_code == 412
    assert door.get("/policies/?name=CHA").json()["count"] == 1
    assert door.ask("DELETE", path, If_Match='"2"').status_code == 204
    assert door.get(path).status_code == 404


def test_revisions_are_written_listed_read_and_compared(door: Door, policy: dict[str, Any]) -> None:
    first = write(door, policy, {"document": DOCUMENT, "note": "half"})
    assert first.status_code == 201, first.content
    assert (first.json()["number"], first["ETag"]) == (1, '"2"')
    text = "version: fabric/v1\ntiers: {dram: {capacity: {share: 0.25}, ttl_s: 60}}\n"
    second = write(door, policy, {"text": text}, first["ETag"])
    assert second.json()["number"] == 2
    path = f"/policies/{policy['id']}/revisions/"
    assert [row["number"] for row in door.get(path).json()["results"]] == [2, 1]
    assert door.get(f"{path}1/").json()["document"]["tiers"]["dram"]["capacity"] == {"share": 0.5}
    diff = door.get(f"{path}2/diff/").json()
    assert (diff["before"], diff["after"]) == (1, 2)
    assert {change["field"]: (change["before"], change["after"]) for change in diff["changes"]} == {
        "tiers.dram.capacity.share": (0.5, 0.25),
        "tiers.dram.ttl_s": (None, 60.0),
    }
    assert door.get(f"{path}1/diff/?against=2").json()["before"] == 2
    assert door.get(f"{path}1/diff/?against=99").status_code == 404
    assert door.get(f"{path}1/diff/?against=²").status_code == 422
    assert door.get(f"{path}99/").status_code == 404
    assert door.get(f"/policies/{policy['id']}/").json()["latest_number"] == 2


def test_revision_without_precondition_or_on_an_old_one_is_refused(door: Door, policy: dict[str, Any]) -> None:
    path = f"/policies/{policy['id']}/revisions/"
    assert door.post(path, {"document": DOCUMENT}).status_code == 428
    write(door, policy, {"document": DOCUMENT})
    stale = write(door, policy, {"document": {"version": "fabric/v1"}})
    assert stale.status_code == 412
    assert Revision.objects.count() == 1


def test_unchanged_revision_conflicts_and_names_the_existing_one(door: Door, policy: dict[str, Any]) -> None:
    first = write(door, policy, {"document": DOCUMENT})
    reply = write(door, policy, {"document": DOCUMENT}, first["ETag"])
    assert reply.status_code == 409
    assert "chat r1" in reply.json()["detail"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_revisions_cannot_be_changed(door: Door, policy: dict[str, Any], method: str) -> None:
    write(door, policy, {"document": DOCUMENT})
    reply = door.ask(method, f"/policies/{policy['id']}/revisions/1/", {"document": {}}, If_Match='"2"')
    assert reply.status_code == 405


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"document": {"version": "fabric/v1", "tiers": {"dram": {"capacity": {"share": 7}}}}}, 422, "share"),
        ({"document": {"version": "fabric/v1", "tiers": {"dram": {"evict": "lru"}}}}, 422, "tiers.dram.evict"),
        ({"text": "a: &x 1\nb: *x"}, 422, "document"),
        ({"document": [1]}, 400, "document"),
        ({"text": 5}, 400, "text"),
        ({"text": "x" * 70_000}, 400, "text"),
        ({"document": DOCUMENT, "number": 7}, 400, "number"),
        ({}, 422, "document"),
    ],
)
def test_bad_revision_names_the_field(
    door: Door, policy: dict[str, Any], body: dict[str, Any], status: int, field: str
) -> None:
    reply = write(door, policy, body)
    assert reply.status_code == status, reply.content
    assert any(field in problem["field"] for problem in reply.json()["problems"]), reply.json()
    assert not Revision.objects.exists()


def test_schema_has_units_and_defaults(door: Door) -> None:
    schema = door.get("/policies/schema/").json()
    dram = schema["$defs"]["DramPolicy"]["properties"]
    assert dram["ttl_s"]["unit"] == "seconds"
    assert dram["eviction"]["enum"] == ["lru", "fifo"]


def test_validate_stores_nothing_and_names_agent_engine_and_knob(door: Door) -> None:
    pool = Pool.objects.create(name="pool-a")
    Agent.objects.create(name="dpu-1", pool=pool, state="active", public_key="k", capabilities=CAPABILITIES)
    fine = Door(Role.VIEWER).post("/policies/validate/", {"document": DOCUMENT})
    assert (fine.status_code, fine.json()["problems"]) == (200, [])
    assert fine.json()["digest"].startswith("sha256:")
    body = {"text": "version: fabric/v1\ntiers: {dram: {eviction: fifo}}", "pool": str(pool.pk)}
    (problem,) = door.post("/policies/validate/", body).json()["problems"]
    assert (problem["agent"], problem["engine"], problem["field"]) == ("dpu-1", "valkey", "tiers.dram.eviction")
    assert door.post("/policies/validate/", {"document": {}}).status_code == 422
    assert door.post("/policies/validate/", body | {"pool": str(uuid.uuid4())}).status_code == 404
    assert not Revision.objects.exists()


def test_pool_is_assigned_a_policy(door: Door, policy: dict[str, Any]) -> None:
    pool = Pool.objects.create(name="pool-a")
    path = f"/pools/{pool.pk}/policy/"
    assert door.get(path).status_code == 404
    reply = door.ask("PUT", path, {"policy": policy["id"], "reason": "first"})
    assert (reply.status_code, reply.json()["policy_name"], reply.json()["current_revision"]) == (200, "chat", None)
    assert door.get(path).json() == reply.json()
    (row,) = door.get("/policies/").json()["results"]
    assert row["pools"][0]["pool_name"] == "pool-a"
    blocked = door.ask("DELETE", f"/policies/{policy['id']}/", If_Match=policy["etag"])
    assert blocked.status_code == 409
    assert door.ask("PUT", path, {"policy": str(uuid.uuid4())}).status_code == 404
    assert door.ask("PUT", f"/pools/{uuid.uuid4()}/policy/", {"policy": policy["id"]}).status_code == 404


def test_viewers_may_read_and_nothing_else(door: Door, policy: dict[str, Any]) -> None:
    viewer, pool = Door(Role.VIEWER), Pool.objects.create(name="pool-a")
    path = f"/policies/{policy['id']}/"
    assert viewer.get(path).status_code == 200
    etag = policy["etag"]
    for reply in (
        viewer.post("/policies/", {"name": "x"}),
        viewer.ask("PATCH", path, {"name": "x"}, If_Match=etag),
        viewer.ask("DELETE", path, If_Match=etag),
        write(viewer, policy, {"document": DOCUMENT}),
        viewer.ask("PUT", f"/pools/{pool.pk}/policy/", {"policy": policy["id"]}),
    ):
        assert reply.status_code == 403
    assert list(Policy.objects.values_list("name", "version")) == [("chat", 1)]


@pytest.mark.parametrize(
    "path", ["", "ID/", "ID/revisions/", "ID/revisions/1/", "ID/revisions/1/diff/", "schema/", "validate/"]
)
def test_nothing_answers_without_credentials(policy: dict[str, Any], path: str) -> None:
    for method in ("GET", "POST", "PATCH", "DELETE"):
        reply = Door(None).ask(method, "/policies/" + path.replace("ID", policy["id"]), {})
        assert reply.status_code in (401, 403, 405)
