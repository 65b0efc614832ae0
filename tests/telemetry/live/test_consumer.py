"""The websocket's protocol through a real server: who may connect, what is answered, what is refused."""

import asyncio
import time
from uuid import uuid4

import orjson
import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fabric.accounts.models import User
from fabric.core.events import publish_control
from fabric.pools.models import Pool
from telemetry.live.consumer import MAX_TOPICS
from telemetry.live.frames import Mark
from tests.telemetry.live.harness import Feed, live

pytestmark = pytest.mark.django_db(transaction=True)


async def test_without_session_is_closed_with_4401(web: str, clean_redis: str) -> None:
    for cookie in (None, "nonsense"):
        async with live(web, cookie) as client:
            assert await client.close_code() == 4401


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://{web}", "http://127.0.0.1:1", "null", None, "http://{web}.evil.example"]
)
async def test_foreign_origin_is_refused_before_the_handshake(web: str, cookie: str, origin: str | None) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with live(web, cookie, origin=origin.format(web=web) if origin else None):
            pass
    assert caught.value.response.status_code == 403


async def test_foreign_host_is_refused_even_with_a_matching_origin(web: str, cookie: str) -> None:
    port = web.split(":")[1]
    options = {"origin": f"http://evil.example:{port}", "host": "127.0.0.1", "port": int(port)}
    with pytest.raises(InvalidStatus) as caught:
        async with connect(
            f"ws://evil.example:{port}/ws/live/", additional_headers={"Cookie": f"fabric_session={cookie}"}, **options
        ):
            pass
    assert caught.value.response.status_code == 403


async def test_other_paths_are_refused(web: str, cookie: str) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(f"ws://{web}/ws/other/", origin=f"http://{web}"):
            pass
    assert caught.value.response.status_code == 403


async def test_subscribe_gives_snapshot_then_each_frame(web: str, cookie: str, feed: Feed) -> None:
    await feed.push(5)
    async with live(web, cookie) as client:
        await client.subscribe()
        snapshot = await client.expect("snapshot")
        assert (snapshot["topic"], snapshot["epoch"], snapshot["seq"]) == ("overview", feed.builder.epoch, 5)
        assert [frame["seq"] for frame in snapshot["frames"]] == [1, 2, 3, 4, 5]
        for seq in (6, 7, 8):
            await feed.push()
            frame = await client.expect("frame")
            assert (frame["topic"], frame["epoch"], frame["seq"]) == ("overview", feed.builder.epoch, seq)
            assert "prefix_hit_ratio_blocks" in frame["kpis"]


async def test_subscribe_to_an_empty_ring_gives_an_empty_snapshot_then_frames_without_reset(
    web: str, cookie: str, feed: Feed
) -> None:
    async with live(web, cookie) as client:
        await client.subscribe()
        assert (await client.expect("snapshot"))["frames"] == []
        await feed.push()
        assert (await client.expect("frame"))["seq"] == 1


async def test_resume_gives_exactly_the_missed_frames(web: str, cookie: str, feed: Feed) -> None:
    await feed.push(10)
    async with live(web, cookie) as client:
        await client.subscribe(resume={"epoch": feed.builder.epoch, "seq": 6})
        assert [(await client.expect("frame"))["seq"] for _ in range(4)] == [7, 8, 9, 10]
        await feed.push()
        assert (await client.expect("frame"))["seq"] == 11


async def test_resume_at_the_newest_frame_gives_nothing_until_the_next(web: str, cookie: str, feed: Feed) -> None:
    await feed.push(3)
    async with live(web, cookie) as client:
        await client.subscribe(resume={"epoch": feed.builder.epoch, "seq": 3})
        assert await client.silent()
        await feed.push()
        assert (await client.expect("frame"))["seq"] == 4


@pytest.mark.parametrize("resume", [{"epoch": "0" * 32, "seq": 3}, {"epoch": None, "seq": 99}])
async def test_resume_from_another_epoch_or_the_future_is_reset_and_snapshot(
    web: str, cookie: str, feed: Feed, resume: dict
) -> None:
    await feed.push(3)
    async with live(web, cookie) as client:
        await client.subscribe(resume={**resume, "epoch": resume["epoch"] or feed.builder.epoch})
        reset = await client.expect("reset")
        assert reset == {"type": "reset", "topic": "overview", "epoch": feed.builder.epoch}
        assert len((await client.expect("snapshot"))["frames"]) == 3


async def test_new_epoch_on_an_open_socket_is_reset_and_snapshot(
    web: str, cookie: str, feed: Feed, clean_redis: str
) -> None:
    await feed.push(3)
    async with live(web, cookie) as client:
        await client.subscribe()
        await client.expect("snapshot")
        await asyncio.sleep(0.01)
        again = Feed(clean_redis)
        await again.push()
        assert (await client.expect("reset"))["epoch"] == again.builder.epoch
        snapshot = await client.expect("snapshot")
        assert [(frame["epoch"], frame["seq"]) for frame in snapshot["frames"]] == [(again.builder.epoch, 1)]
        await again.push()
        assert (await client.expect("frame"))["seq"] == 2
        await again.close()


async def test_long_snapshot_comes_in_parts_in_order(web: str, cookie: str, feed: Feed) -> None:
    label = "x" * 2000
    await feed.push(120, marks=[Mark(1.0, "note", label, "")])
    async with live(web, cookie) as client:
        await client.subscribe()
        seqs: list[int] = []
        parts = 0
        while len(seqs) < 120:
            part = await client.expect("snapshot")
            parts += 1
            seqs += [frame["seq"] for frame in part["frames"]]
            assert part["seq"] == seqs[-1]
        assert seqs == list(range(1, 121))
        assert parts > 3


async def test_topics_are_checked_against_what_exists(web: str, cookie: str, feed: Feed) -> None:
    pool = await sync_to_async(Pool.objects.create)(name="p")
    async with live(web, cookie) as client:
        wrong = ("", "overview:", "pool:", f"pool:{uuid4()}", f"agent:{pool.pk}", "fabric:control")
        for topic in (*wrong, f"pool:{str(pool.pk).upper()}"):
            await client.subscribe(topic)
            error = await client.expect("error")
            assert error["topic"] == topic
        await client.subscribe(f"pool:{pool.pk}")
        await client.expect("snapshot")
        await feed.push(pool_ids=[pool.pk])
        assert (await client.expect("frame"))["topic"] == f"pool:{pool.pk}"
        assert await client.silent(), "no frame of topics without subscription"


async def test_topic_whose_object_goes_is_taken_away(web: str, cookie: str, feed: Feed) -> None:
    pool = await sync_to_async(Pool.objects.create)(name="p")
    async with live(web, cookie) as client:
        await client.subscribe(f"pool:{pool.pk}")
        await client.expect("snapshot")
        await Pool.objects.all().adelete()
        await sync_to_async(publish_control)("pool.deleted")
        assert (await client.expect("error"))["topic"] == f"pool:{pool.pk}"
        await feed.push(pool_ids=[pool.pk])
        assert await client.silent()


async def test_unsubscribe_ends_a_topic(web: str, cookie: str, feed: Feed) -> None:
    async with live(web, cookie) as client:
        await client.subscribe()
        await client.expect("snapshot")
        await client.send(op="unsubscribe", topic="overview")
        await client.send(op="ping")
        await client.expect("pong")
        await feed.push()
        assert await client.silent()


async def test_ping_is_answered_with_the_servers_time(web: str, cookie: str, clean_redis: str) -> None:
    async with live(web, cookie) as client:
        await client.send(op="ping")
        assert abs((await client.expect("pong"))["server_time_s"] - time.time()) < 2


USELESS = (
    "", "nonsense", "[]", "1", '"overview"', "{}", "[" * 3000,
    '{"op":"subscribe"}', '{"op":"subscribe","topic":7}', '{"op":"drop"}',
    '{"op":"subscribe","topic":"overview","resume":7}',
    '{"op":"subscribe","topic":"overview","resume":{"epoch":1,"seq":1}}',
    '{"op":"subscribe","topic":"overview","resume":{"epoch":"a","seq":-1}}',
    '{"op":"subscribe","topic":"overview","resume":{"epoch":"a","seq":1e3}}',
)  # fmt: skip


async def test_messages_that_cannot_be_used_are_errors_and_the_socket_lives(
    web: str, cookie: str, clean_redis: str
) -> None:
    async with live(web, cookie) as client:
        for text in USELESS:
            await client.socket.send(text)
            await client.expect("error")
        await client.send(op="ping")
        await client.expect("pong")


async def test_binary_and_too_large_messages_close(web: str, cookie: str, clean_redis: str) -> None:
    async with live(web, cookie) as client:
        await client.socket.send(b"\x00")
        assert await client.close_code() == 1003
    async with live(web, cookie) as client:
        await client.socket.send(orjson.dumps({"op": "ping", "x": "y" * 5000}).decode())
        assert await client.close_code() == 1009
    async with live(web, cookie) as client:
        await client.socket.send("y" * 1_000_000)
        assert await client.close_code() == 1009


async def test_flood_of_messages_closes_with_4429(web: str, cookie: str, clean_redis: str) -> None:
    async with live(web, cookie) as client:
        try:
            for _ in range(5000):
                await client.send(op="ping")
                await asyncio.sleep(0)
        except ConnectionClosed:
            pass
        assert await client.close_code() == 4429


async def test_number_of_topics_is_bounded(web: str, cookie: str, clean_redis: str) -> None:
    pools = [await sync_to_async(Pool.objects.create)(name=f"p{i}") for i in range(MAX_TOPICS + 1)]
    async with live(web, cookie) as client:
        for pool in pools:
            await client.subscribe(f"pool:{pool.pk}")
        answers = [await client.receive() for _ in pools]
        assert sum(answer["type"] == "snapshot" for answer in answers) == MAX_TOPICS
        assert next(a for a in answers if a["type"] == "error")["detail"].startswith(f"at most {MAX_TOPICS} topics")


async def test_session_that_ends_closes_the_socket_within_five_seconds(web: str, cookie: str, clean_redis: str) -> None:
    async with live(web, cookie) as client:
        await client.subscribe()
        await client.expect("snapshot")
        await Session.objects.all().adelete()
        started = time.monotonic()
        assert await client.close_code() == 4401
        assert time.monotonic() - started < 6.5


@pytest.mark.parametrize("change", [{"is_active": False}, {"password": "changed"}])
async def test_control_event_closes_a_revoked_person_at_once(
    web: str, cookie: str, user: User, clean_redis: str, change: dict
) -> None:
    async with live(web, cookie) as client:
        await client.subscribe()
        await client.expect("snapshot")
        await sync_to_async(publish_control)("user.changed")
        await client.send(op="ping")
        await client.expect("pong")
        await User.objects.filter(pk=user.pk).aupdate(**change)
        started = time.monotonic()
        await sync_to_async(publish_control)("user.changed", user_id=str(user.pk))
        assert await client.close_code() == 4401
        assert time.monotonic() - started < 2
