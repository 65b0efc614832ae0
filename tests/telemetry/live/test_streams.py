"""Streams under stress: forced reconnects, a subscriber that is cut off, Redis killed, viewers that do not read."""

import asyncio
import contextlib
import random
from pathlib import Path

import psutil
import pytest
import redis
from django.test import override_settings
from websockets.exceptions import ConnectionClosed

from telemetry.live import broadcaster as broadcaster_module
from telemetry.live.consumer import SLOW_SEND_S
from telemetry.live.frames import Mark
from tests.support.servers import running_redis
from tests.telemetry.exposition import until
from tests.telemetry.live.harness import Feed, live, running_web

pytestmark = pytest.mark.django_db(transaction=True)


def viewers() -> int:
    current = broadcaster_module._current
    return len(current._viewers) if current else 0


async def test_200_forced_reconnects_leave_no_gap_and_no_duplicate(web: str, cookie: str, feed: Feed) -> None:
    chance = random.Random(7)
    running = True
    seen: list[int] = []

    async def push_always() -> None:
        pushed = 0
        while running:
            if pushed - len(seen) < 200:  # a reader on a busy machine must not fall behind the ring's 300 frames
                pushed = await feed.push()
            await asyncio.sleep(0.004)

    pushing = asyncio.create_task(push_always())
    for _ in range(200):
        async with live(web, cookie) as client:
            resume = {"epoch": feed.builder.epoch, "seq": seen[-1]} if seen else None
            await client.subscribe(resume=resume)
            for _ in range(chance.randrange(5)):
                message = await client.receive()
                assert message["type"] in ("snapshot", "frame"), message
                seen += [f["seq"] for f in message.get("frames", [message])]
            if chance.random() < 0.7:
                client.socket.transport.abort()  # no close frame, as a train in a tunnel
    running = False
    await pushing
    assert len(seen) > 200
    assert seen == list(range(seen[0], seen[0] + len(seen)))


async def test_cut_off_subscriber_comes_back_and_viewers_miss_nothing(
    web: str, cookie: str, feed: Feed, clean_redis: str
) -> None:
    async with live(web, cookie) as client, live(web, cookie) as other:
        for one in (client, other):
            await one.subscribe()
            await one.expect("snapshot")
        last = 0
        for _ in range(10):
            with redis.Redis.from_url(clean_redis) as admin:
                assert admin.client_kill_filter(_type="pubsub") == 1, "one subscriber per process, however many viewers"
            last = await feed.push(5)
            for one in (client, other):
                seqs: list[int] = []
                while not seqs or seqs[-1] < last:
                    seqs.append((await one.expect("frame"))["seq"])
                assert seqs == list(range(last - 4, last + 1))


async def test_redis_killed_streams_say_so_and_go_on_when_it_is_back(cookie: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(override_settings(REDIS_URL=f"unix://{tmp_path}/r/redis.sock"))
        url = stack.enter_context(running_redis(tmp_path / "r"))
        web = stack.enter_context(running_web())
        feed = Feed(url)
        await feed.push(3)
        async with live(web, cookie) as client:
            await client.subscribe()
            assert (await client.expect("snapshot"))["seq"] == 3
            with redis.Redis.from_url(url) as admin, contextlib.suppress(redis.ConnectionError):
                admin.execute_command("SHUTDOWN", "NOSAVE")
            await client.send(op="ping")
            await client.expect("pong")
            async with live(web, cookie) as late:
                await late.subscribe()
                assert "interrupted" in (await late.expect("error", timeout_s=10))["detail"]
                with running_redis(tmp_path / "r"):
                    await asyncio.wait_for(_wait_ready(), 10)
                    last = await feed.push(2)
                    assert (await client.expect("frame", timeout_s=10))["seq"] == last - 1
                    assert (await client.expect("frame"))["seq"] == last
                    message = await late.receive()
                    while message["type"] != "frame":
                        message = await late.receive()
                    assert message["seq"] >= last - 1
        await feed.close()


async def _wait_ready() -> None:
    while not (broadcaster_module._current and broadcaster_module._current.ready):
        await asyncio.sleep(0.05)


async def test_slow_viewer_gets_the_newest_frame_and_holds_up_nobody(web: str, cookie: str, feed: Feed) -> None:
    big = [Mark(1.0, "note", "x" * 20_000, "")]
    async with live(web, cookie, max_queue=1) as slow, live(web, cookie) as quick:
        for one in (slow, quick):
            await one.subscribe()
            await one.expect("snapshot")
        for seq in range(1, 401):
            await feed.push(marks=big)
            assert (await quick.expect("frame"))["seq"] == seq
        await asyncio.sleep(SLOW_SEND_S + 0.2)
        seqs = [(await slow.expect("frame"))["seq"]]
        while seqs[-1] < 400:
            seqs.append((await slow.expect("frame"))["seq"])
        assert seqs == sorted(set(seqs)), "in order, none twice"
        assert len(seqs) < 400, "frames were skipped, not queued"


async def test_viewer_that_never_reads_is_cut_off_after_the_time_limit(
    web: str, cookie: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.live.consumer.SEND_TIMEOUT_S", 0.5)
    big = [Mark(1.0, "note", "x" * 20_000, "")]
    await until(lambda: viewers() == 0)
    async with live(web, cookie, max_queue=1, ping_interval=None) as slow:
        await slow.subscribe()
        await slow.expect("snapshot")
        for _ in range(600):
            await feed.push(marks=big)
            if viewers() == 0:
                break
        await until(lambda: viewers() == 0, message="the server letting go of a viewer that never reads")
        with pytest.raises(ConnectionClosed):  # noqa: PT012
            while True:
                await slow.receive()


async def test_50_viewers_that_never_read_cost_bounded_memory(
    web: str, cookie: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = [Mark(1.0, "note", "x" * 4_000, "")]
    await feed.push(300, marks=big)
    process = psutil.Process()
    sockets = []
    async with asyncio.timeout(60):
        async with live(web, cookie) as warm:
            await warm.subscribe()
            while (await warm.expect("snapshot"))["seq"] < 300:
                pass
            before = process.memory_info().rss
            stack = [live(web, cookie, max_queue=1, ping_interval=None) for _ in range(50)]
            sockets = [await one.__aenter__() for one in stack]
            for one in sockets:
                await one.subscribe()
            for _ in range(100):
                await feed.push(marks=big)
                await warm.expect("frame")
            grown = process.memory_info().rss - before
            for one in sockets:
                one.socket.transport.abort()
            for context in stack:
                await context.__aexit__(None, None, None)
    # Both ends live in this process: up to 1.5 MB of ring per viewer would be 75 MB if snapshots were sent whole.
    assert grown < 30 << 20, f"{grown / 2**20:.0f} MiB for 50 viewers"


async def test_last_viewer_leaving_ends_the_subscriber(web: str, cookie: str, feed: Feed, clean_redis: str) -> None:
    async with live(web, cookie) as client:
        await client.subscribe()
        await client.expect("snapshot")
    await until(lambda: viewers() == 0)
    with redis.Redis.from_url(clean_redis) as admin:
        await until(lambda: admin.pubsub_numsub("fabric:frames")[0][1] == 0, message="the subscription ending")
