"""The REST door of telemetry, through the whole stack: who may, what comes back, what is refused and how it says so."""

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
import redis
from django.core.cache import cache
from django.test import override_settings
from rest_framework.test import APIClient

from fabric.audit.models import AuditEntry
from fabric.core.actor import Role
from fabric.pools.models import Pool
from telemetry.kpis import KPIS
from telemetry.live.frames import FrameBuilder
from telemetry.live.redis import RING_FRAMES, ring_key
from telemetry.models import ScrapeTarget
from telemetry.series.store import SourceKey
from tests.conftest import ROOT as ROOT_DIR
from tests.fabric.people import bearer_client, person
from tests.telemetry.series.history import agent_samples, write

pytestmark = pytest.mark.django_db
ROOT = "/api/v1/telemetry/"
NOBODY = "00000000-0000-4000-8000-000000000000"
CONTRACT = (ROOT_DIR / "docs" / "contracts.md").read_text()
CONTRACT_KPIS = set(re.findall(r"`(\w+)`", CONTRACT.split("KPI names", 1)[1].split("\nMarks:", 1)[0]))


@pytest.fixture(autouse=True)
def _fresh_rate_limits() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def viewer(db: None) -> APIClient:
    return bearer_client(person(Role.VIEWER))


@pytest.fixture
def operator(db: None) -> APIClient:
    return bearer_client(person(Role.OPERATOR))


def problem(reply: Any, status: int) -> dict[str, Any]:
    assert reply.status_code == status, reply.content
    assert reply["Content-Type"] == "application/problem+json"
    body = json.loads(reply.content)
    assert body["status"] == status
    return dict(body)


def publish(redis_url: str, frames: int, topic_pools: list[Any] | None = None) -> FrameBuilder:
    """Put frames into the rings as the publisher does."""
    builder = FrameBuilder()
    with redis.Redis.from_url(redis_url) as client:
        for _ in range(frames):
            for frame in builder.build(time.time(), [], topic_pools or [], []):
                entry = {"epoch": frame.epoch, "seq": frame.seq, "frame": frame.body}
                client.xadd(ring_key(frame.topic), entry, id=f"{builder.started_ms}-{frame.seq}", maxlen=RING_FRAMES)
    return builder


@pytest.mark.parametrize(
    "path", ["kpis/", "series/?kpi=power_w", "status/", "targets/", "topics/overview/frames/", f"targets/{NOBODY}/"]
)
def test_nothing_answers_without_credentials(path: str) -> None:
    assert APIClient().get(ROOT + path).status_code in (401, 403)


def test_kpis_tell_the_whole_catalogue(viewer: APIClient) -> None:
    body = viewer.get(ROOT + "kpis/").json()
    assert [kpi["name"] for kpi in body["kpis"]] == [kpi.name for kpi in KPIS]
    assert len(CONTRACT_KPIS) >= 16
    assert {kpi["name"] for kpi in body["kpis"]} >= CONTRACT_KPIS
    for kpi in body["kpis"]:
        assert kpi["basis"] in ("measured", "modelled", "declared")
        assert all(kpi[key] for key in ("title", "unit", "meaning", "formula", "aggregation", "sources"))


def test_series_gives_columns_with_gaps_as_null(viewer: APIClient) -> None:
    now = int(time.time()) - 20
    write(SourceKey("agent:a", "a", "agent"), [(now - 10 + i, agent_samples(i)) for i in range(10)])
    reply = viewer.get(
        ROOT + "series/", {"kpi": "get_bytes_per_s,ttft_p99_s", "start": now - 12, "end": now, "step": 1}
    )
    body = reply.json()
    assert reply.status_code == 200
    assert (body["topic"], body["step_s"], body["level_s"]) == ("overview", 1, 1)
    assert body["at_s"] == list(range(now - 12, now))
    assert body["kpis"]["get_bytes_per_s"] == [None] * 3 + [pytest.approx(81920.0)] * 9
    assert body["kpis"]["ttft_p99_s"] == [None] * 12


def test_series_as_csv_has_empty_cells_for_gaps(viewer: APIClient) -> None:
    now = int(time.time()) - 20
    write(SourceKey("agent:a", "a", "agent"), [(now - 5 + i, agent_samples(i)) for i in range(5)])
    query = {"kpi": "set_bytes_per_s,stored_bytes_flash", "start": now - 6, "end": now, "step": 1}
    by_parameter = viewer.get(ROOT + "series/", {**query, "format": "csv"})
    by_header = viewer.get(ROOT + "series/", query, headers={"accept": "text/csv"})
    assert by_parameter.content == by_header.content
    assert by_header["Content-Type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(by_header.content.decode())))
    assert rows[0] == ["at_s", "time", "set_bytes_per_s", "stored_bytes_flash"]
    assert rows[1] == [str(now - 6), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - 6)), "", ""]
    assert rows[-1][2:] == ["10000.0", "2000000.0"]


def test_series_of_a_pool_and_an_agent_are_theirs_alone(viewer: APIClient) -> None:
    now = int(time.time()) - 20
    mine, other = Pool.objects.create(name="mine"), Pool.objects.create(name="other")
    write(SourceKey("agent:a", "a", "agent", pool_id=mine.pk), [(now + i, agent_samples(i)) for i in range(3)])
    write(
        SourceKey("agent:b", "b", "agent", pool_id=other.pk), [(now + i, agent_samples(i, speed=99)) for i in range(3)]
    )
    query = {"kpi": "set_bytes_per_s", "start": now, "end": now + 3, "step": 3}
    values = {
        topic: viewer.get(ROOT + "series/", {**query, "topic": topic}).json()["kpis"]["set_bytes_per_s"][-1]
        for topic in ("overview", f"pool:{mine.pk}", f"pool:{other.pk}")
    }
    assert list(values.values()) == pytest.approx([109_000, 10_000, 99_000])


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({}, 400, "kpi"),
        ({"kpi": "no_such"}, 400, "kpi"),
        ({"kpi": ",".join(["power_w"] * 40)}, 400, "kpi"),
        ({"kpi": "power_w", "topic": "fabric:control"}, 400, "topic"),
        ({"kpi": "power_w", "start": "yesterday"}, 400, "start"),
        ({"kpi": "power_w", "start": "1e999"}, 400, "start"),
        ({"kpi": "power_w", "end": "nan"}, 400, "end"),
        ({"kpi": "power_w", "end": "2026-12-01T08:00:00"}, 400, "end"),
        ({"kpi": "power_w", "step": "0.5"}, 400, "step"),
        ({"kpi": "power_w", "step": "1e999"}, 400, "step"),
        ({"kpi": "power_w", "steps": "1"}, 400, "steps"),
        ({"kpi": "power_w", "start": "1800000000", "end": "1700000000"}, 422, "start"),
        ({"kpi": "power_w", "start": "0", "end": "1e10", "step": "300"}, 422, "start"),
    ],
)
def test_series_bad_question_says_which_field(
    viewer: APIClient, query: dict[str, str], status: int, field: str
) -> None:
    for accept in ("application/json", "text/csv"):
        body = problem(viewer.get(ROOT + "series/", query, headers={"accept": accept}), status)
        assert body["problems"][0]["field"] == field


def test_series_of_an_unknown_pool_is_not_found(viewer: APIClient) -> None:
    problem(viewer.get(ROOT + "series/", {"kpi": "power_w", "topic": f"pool:{uuid4()}"}), 404)


def test_frames_all_then_after_a_position(viewer: APIClient, clean_redis: str) -> None:
    builder = publish(clean_redis, 8)
    everything = viewer.get(ROOT + "topics/overview/frames/").json()
    assert (everything["epoch"], everything["seq"], everything["reset"]) == (builder.epoch, 8, False)
    assert [frame["seq"] for frame in everything["frames"]] == list(range(1, 9))
    rest = viewer.get(ROOT + "topics/overview/frames/", {"after": f"{builder.epoch}:6"}).json()
    assert [frame["seq"] for frame in rest["frames"]] == [7, 8]
    none = viewer.get(ROOT + "topics/overview/frames/", {"after": f"{builder.epoch}:8"}).json()
    assert (none["frames"], none["epoch"], none["seq"]) == ([], builder.epoch, 8)


def test_frames_after_another_epoch_or_the_future_is_a_reset(viewer: APIClient, clean_redis: str) -> None:
    builder = publish(clean_redis, 3)
    for after in (f"{'0' * 32}:2", f"{builder.epoch}:99"):
        body = viewer.get(ROOT + "topics/overview/frames/", {"after": after}).json()
        assert body["reset"] is True
        assert [frame["seq"] for frame in body["frames"]] == [1, 2, 3]


def test_frames_of_the_newest_epoch_only(viewer: APIClient, clean_redis: str) -> None:
    publish(clean_redis, 3)
    time.sleep(0.002)
    newer = publish(clean_redis, 2)
    body = viewer.get(ROOT + "topics/overview/frames/").json()
    assert {frame["epoch"] for frame in body["frames"]} == {newer.epoch}


def test_frames_of_an_empty_ring(viewer: APIClient, clean_redis: str) -> None:
    body = viewer.get(ROOT + "topics/overview/frames/").json()
    assert body == {"topic": "overview", "epoch": "", "seq": 0, "reset": False, "frames": []}


@pytest.mark.parametrize("after", ["", "7", "epoch:", "epoch:-1", "epoch:x", ":7", "e:" + "9" * 30])
def test_frames_position_that_is_none_is_refused(viewer: APIClient, clean_redis: str, after: str) -> None:
    assert (
        problem(viewer.get(ROOT + "topics/overview/frames/", {"after": after}), 400)["problems"][0]["field"] == "after"
    )


def test_frames_of_topics_that_do_not_exist(viewer: APIClient, clean_redis: str) -> None:
    problem(viewer.get(ROOT + f"topics/agent:{uuid4()}/frames/"), 404)
    problem(viewer.get(ROOT + "topics/nonsense/frames/"), 422)


def test_redis_away_live_answers_503_and_history_goes_on(viewer: APIClient, tmp_path: Path) -> None:
    with override_settings(REDIS_URL=f"unix://{tmp_path}/nobody.sock"):
        assert problem(viewer.get(ROOT + "topics/overview/frames/"), 503)["type"].endswith("live-unavailable")
        problem(viewer.get(ROOT + "status/"), 503)
        assert viewer.get(ROOT + "series/", {"kpi": "power_w"}).status_code == 200


def test_status_tells_whether_the_scraper_runs(viewer: APIClient, clean_redis: str) -> None:
    assert viewer.get(ROOT + "status/").json() == {"running": False, "age_s": None, "report": None}
    report = {"at_s": time.time(), "interval_s": 1.0, "faults": {}, "targets": []}
    with redis.Redis.from_url(clean_redis) as client:
        client.set("fabric:scraper:status", orjson.dumps(report))
        assert viewer.get(ROOT + "status/").json()["running"] is True
        client.set("fabric:scraper:status", orjson.dumps(report | {"at_s": time.time() - 60}))
        assert viewer.get(ROOT + "status/").json()["running"] is False


TARGET = {"name": "vllm-0", "kind": "vllm", "url": "http://127.0.0.1:8000/metrics"}


def test_target_is_registered_listed_changed_and_removed(operator: APIClient) -> None:
    made = operator.post(
        ROOT + "targets/", TARGET | {"bearer_token": "tok-secret", "labels": {"rack": "r1"}}, format="json"
    )
    assert made.status_code == 201, made.content
    assert made.json()["has_token"] is True
    assert b"tok-secret" not in made.content
    again = operator.post(
        ROOT + "targets/", TARGET | {"bearer_token": "tok-secret", "labels": {"rack": "r1"}}, format="json"
    )
    assert again.json()["id"] == made.json()["id"]
    assert AuditEntry.objects.filter(object_type="telemetry.scrapetarget").count() == 1, (
        "the same again changes nothing"
    )
    listed = operator.get(ROOT + "targets/").json()["results"]
    assert [(row["name"], row["kind"], row["enabled"]) for row in listed] == [("vllm-0", "vllm", True)]
    changed = operator.post(ROOT + "targets/", TARGET | {"enabled": False}, format="json").json()
    assert (changed["enabled"], changed["has_token"], changed["labels"]) == (False, True, {})
    gone = operator.delete(ROOT + f"targets/{made.json()['id']}/")
    assert gone.status_code == 204
    problem(operator.delete(ROOT + f"targets/{made.json()['id']}/"), 404)
    verbs = list(
        AuditEntry.objects.filter(object_type="telemetry.scrapetarget").order_by("at").values_list("verb", flat=True)
    )
    assert verbs == ["register", "change", "remove"]
    assert "tok-secret" not in json.dumps(list(AuditEntry.objects.values("before", "after")))


def test_targets_are_for_operators(viewer: APIClient) -> None:
    problem(viewer.get(ROOT + "targets/"), 403)
    problem(viewer.post(ROOT + "targets/", TARGET, format="json"), 403)
    problem(viewer.delete(ROOT + f"targets/{uuid4()}/"), 403)
    assert ScrapeTarget.objects.count() == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": "ftp://127.0.0.1/metrics"}, "url"),
        ({"url": "127.0.0.1:8000"}, "url"),
        ({"url": "http://user:pw@127.0.0.1/metrics"}, "url"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "url"),
        ({"url": "http://[fe80::1]/metrics"}, "url"),
        ({"url": "http://[::ffff:169.254.169.254]/metrics"}, "url"),
        ({"url": "http://metadata.google.internal/"}, "url"),
        ({"url": "http://0.0.0.0:80/"}, "url"),
        ({"url": "http://127.0.0.1:99999/"}, "url"),
        ({"url": "http://127.0.0.1/ metrics"}, "url"),
        ({"url": "http://10.0.0.1/metrics", "bearer_token": "t"}, "url"),
        ({"bearer_token": "with blank"}, "bearer_token"),
        ({"kind": "toaster"}, "kind"),
        ({"name": "vllm\u0007x"}, "name"),
        ({"labels": {"bad name": "x"}}, "labels.bad name"),
        ({"labels": {f"l{i}": "x" for i in range(17)}}, "labels"),
        ({"pool": NOBODY}, "pool"),
        ({"agent": NOBODY}, "agent"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_target_that_cannot_be_used_says_why_and_nothing_is_stored(
    operator: APIClient, change: dict[str, Any], field: str
) -> None:
    reply = operator.post(ROOT + "targets/", TARGET | change, format="json")
    assert reply.status_code in (400, 422)
    assert problem(reply, reply.status_code)["problems"][0]["field"] == field
    assert ScrapeTarget.objects.count() == 0


def test_target_with_a_new_url_needs_its_token_again(operator: APIClient) -> None:
    operator.post(ROOT + "targets/", TARGET | {"bearer_token": "tok"}, format="json")
    elsewhere = TARGET | {"url": "http://127.0.0.1:9/steal"}
    assert (
        problem(operator.post(ROOT + "targets/", elsewhere, format="json"), 422)["problems"][0]["field"]
        == "bearer_token"
    )
    assert operator.post(ROOT + "targets/", elsewhere | {"bearer_token": "tok"}, format="json").status_code == 201
    assert operator.post(ROOT + "targets/", TARGET | {"bearer_token": ""}, format="json").json()["has_token"] is False
