"""The scrape loop end to end: exposition on the wire → rows in the database, frames in Redis, each fault a counter."""

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from aiohttp import web
from asgiref.sync import sync_to_async
from django.db import OperationalError

from telemetry.kpis import BY_NAME
from telemetry.models import Source, Tick
from telemetry.scrape.fetch import FetchLimits
from telemetry.scrape.lease import LeaseLost
from telemetry.series.query import over_window
from telemetry.series.store import TickLog
from telemetry.targets import Target
from tests.support.servers import running_redis
from tests.telemetry.exposition import ExpositionServer, until
from tests.telemetry.scrape.harness import ring, running_scraper, status
from tests.telemetry.series.history import agent_samples

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def server() -> AsyncIterator[ExpositionServer]:
    async with ExpositionServer(agent_samples(0)) as running:
        yield running


async def keep_counting(server: ExpositionServer, per_s: int = 10) -> None:
    """Let an agent's counters grow until cancelled: one "second" of `agent_samples` every 0.1 s."""
    second = 0
    while True:
        second += 1
        server.samples = dict(agent_samples(second, speed=per_s))
        await asyncio.sleep(0.1)


async def test_scrape_stores_ticks_and_publishes_frames_of_every_topic(
    clean_redis: str, server: ExpositionServer
) -> None:
    pool, agent = uuid4(), uuid4()
    target = server.target("alpha", agent_id=agent, pool_id=pool, bearer="grant")
    counting = asyncio.create_task(keep_counting(server))
    async with running_scraper(clean_redis, [target], pool_ids=[pool, other := uuid4()]) as scraper:
        await until(lambda: scraper.ticks >= 12)
    counting.cancel()
    assert server.requests[0]["Authorization"] == "Bearer grant"
    for topic in ("overview", f"pool:{pool}", f"agent:{agent}"):
        frames = await ring(clean_redis, topic)
        assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1)), topic
        assert len(frames) >= 10
        assert {frame["epoch"] for frame in frames} == {scraper.frames.epoch}
        last = frames[-1]
        assert last["kpis"]["lookup_share_dram"] == pytest.approx(0.3)
        assert last["kpis"]["prefix_hit_ratio_blocks"] == pytest.approx(0.5)
        assert last["kpis"]["get_bytes_per_s"] == pytest.approx(100 * 8192, rel=0.3)
        assert last["kpis"]["ttft_p99_s"] is None
        assert last["agents"][0]["id"] == str(agent)
        assert last["agents"][0]["state"] == "live"
        assert last["agents"][0]["kpis"]["stored_bytes_flash"] == 2e6
        assert "ttft_p99_s" not in last["agents"][0]["kpis"]
    empty = (await ring(clean_redis, f"pool:{other}"))[-1]
    assert empty["agents"] == []
    assert set(empty["kpis"].values()) == {None}
    ticks = await Tick.objects.acount()
    assert ticks == scraper.writer.written_rows >= 10
    source = await Source.objects.aget()
    assert (source.key, source.name, source.pool_id, source.agent_id) == (f"agent:{agent}", "alpha", pool, agent)


async def test_history_and_live_view_agree(clean_redis: str, server: ExpositionServer) -> None:
    counting = asyncio.create_task(keep_counting(server))
    async with running_scraper(clean_redis, [server.target()]) as scraper:
        await until(lambda: scraper.ticks >= 10)
    counting.cancel()
    live = (await ring(clean_redis))[-1]
    rows = [at async for at in Tick.objects.order_by("at_ms").values_list("at_ms", flat=True)]
    kpis = [BY_NAME["prefix_hit_ratio_blocks"], BY_NAME["lookup_share_miss"]]
    stored = await sync_to_async(over_window)(kpis, Source.objects.all(), rows[0] / 1000, rows[-1] / 1000 + 1)
    for name, value in stored.items():
        assert value == pytest.approx(live["kpis"][name], rel=0.01)


async def test_target_that_dies_turns_stale_then_unreachable_and_its_figures_are_gaps(
    clean_redis: str, server: ExpositionServer
) -> None:
    counting = asyncio.create_task(keep_counting(server))
    async with running_scraper(clean_redis, [server.target()]) as scraper:
        await until(lambda: scraper.ticks >= 5)
        await server.__aexit__()
        await until(lambda: scraper.states and next(iter(scraper.states.values())).reason == "connect")
        seen = []
        for _ in range(120):
            frames = await ring(clean_redis)
            state = frames[-1]["agents"][0]["state"]
            if not seen or seen[-1] != state:
                seen.append(state)
            if state == "unreachable":
                break
            await asyncio.sleep(0.05)
        assert seen == ["live", "stale", "unreachable"]
        assert set((await ring(clean_redis))[-1]["kpis"].values()) == {None}
        report = await status(clean_redis)
        assert report["targets"][0]["up"] is False
        assert report["targets"][0]["reason"] == "connect"
        assert report["targets"][0]["faults"]["scrape_connect"] >= 1
        await server.__aenter__()
        await until(lambda: not next(iter(scraper.states.values())).reason)
        await until(
            lambda: (
                next(iter(scraper.states.values())).view(scraper.states and __import__("time").time()).state == "live"
            )
        )
    counting.cancel()


async def test_restart_of_an_agent_is_a_mark_once_and_no_negative_rate(
    clean_redis: str, server: ExpositionServer
) -> None:
    server.samples = dict(agent_samples(1000, start_s=1.0))
    async with running_scraper(clean_redis, [server.target("alpha")]) as scraper:
        await until(lambda: scraper.ticks >= 3)
        server.samples = dict(agent_samples(1, start_s=500.0))
        await until(lambda: scraper.ticks >= 8)
    frames = await ring(clean_redis)
    marks = [mark for frame in frames for mark in frame["marks"]]
    assert [(mark["kind"], mark["label"]) for mark in marks] == [("restart", "alpha restarted")]
    assert marks[0]["url"].startswith("/agents/")
    rates = [frame["kpis"]["get_bytes_per_s"] for frame in frames]
    assert all(rate is None or rate >= 0 for rate in rates)
    assert (await status(clean_redis))["targets"][0]["faults"]["restart"] == 1


async def test_hanging_target_holds_up_neither_others_nor_the_tick(clean_redis: str, server: ExpositionServer) -> None:
    async def hang(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with ExpositionServer() as slow:
        slow.handler = hang
        async with running_scraper(clean_redis, [server.target("good"), slow.target("bad")]) as scraper:
            await until(lambda: scraper.ticks >= 10)
            assert scraper.faults["ticks_skipped"] <= 1
    frames = await ring(clean_redis)
    times = [frame["at_s"] for frame in frames]
    assert all(0.05 < b - a < 0.35 for a, b in itertools.pairwise(times))
    states = {agent["name"]: agent["state"] for agent in frames[-1]["agents"]}
    assert states == {"good": "live", "bad": "unreachable"}
    faults = {target["name"]: target["faults"] for target in (await status(clean_redis))["targets"]}
    assert faults["bad"]["scrape_timeout"] >= 3
    assert not faults["good"]


async def test_target_slower_than_the_interval_has_one_request_in_flight(
    clean_redis: str, server: ExpositionServer
) -> None:
    at_once, most = 0, 0

    async def slow(request: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.25)
        at_once -= 1
        return web.Response(text="kvfabric_agent_set_bytes_total 1\n")

    server.handler = slow
    limits = FetchLimits(1.0, 1 << 20)
    async with running_scraper(clean_redis, [server.target()], limits=limits) as scraper:
        await until(lambda: scraper.ticks >= 10)
        assert next(iter(scraper.states.values())).faults["scrape_still_running"] >= 3
    assert most == 1
    assert await Tick.objects.acount() >= 2


BAD_BODIES = {
    "not_finite": 'kvfabric_agent_set_bytes_total NaN\nkvfabric_agent_stored_bytes{tier="dram"} 1\n',
    "negative_counter": 'kvfabric_agent_set_bytes_total -1\nkvfabric_agent_stored_bytes{tier="dram"} 1\n',
    "garbage_line": "what is this\nkvfabric_agent_set_bytes_total 1\n",
    "duplicate_series": "kvfabric_agent_set_bytes_total 1\nkvfabric_agent_set_bytes_total 2\n",
    "clock_skew": "kvfabric_agent_set_bytes_total 1 1000\n",
    "series_limit": "".join(f'kvfabric_agent_get_bytes_total{{tier="{i}"}} 1\n' for i in range(600)),
    "scrape_not_an_exposition": "<html><body>login</body></html>",
    "scrape_body_too_large": "#" * (1 << 21),
}


async def test_every_fault_of_a_body_is_a_counter_in_the_status(clean_redis: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        targets = []
        for counter, body in BAD_BODIES.items():
            bad = await stack.enter_async_context(ExpositionServer())
            bad.body = body
            targets.append(bad.target(counter))
        async with running_scraper(clean_redis, targets) as scraper:
            await until(lambda: scraper.ticks >= 4)
    faults = {target["name"]: target["faults"] for target in (await status(clean_redis))["targets"]}
    for counter in BAD_BODIES:
        assert faults[counter].get(counter, 0) >= 1, (counter, faults[counter])
    assert faults["series_limit"]["series_limit"] % 100 == 0


async def test_targets_come_and_go_with_the_inventory(
    clean_redis: str, server: ExpositionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.scrape.book.MARKS_EVERY_S", 0.1)
    monkeypatch.setattr("telemetry.scrape.book.REFRESH_EVERY_S", 0.1)
    first, second = server.target("first"), server.target("second")
    wanted: list[Target] = [first]
    broken = False

    def load() -> list[Target]:
        if broken:
            raise OperationalError("the database is away")
        return wanted

    async with running_scraper(clean_redis, load) as scraper:
        await until(lambda: list(scraper.states) == [first.key])
        wanted = [first, second]
        await until(lambda: list(scraper.states) == [first.key, second.key])
        broken = True
        await until(lambda: scraper.book.faults["inventory_unreadable"] >= 3)
        assert list(scraper.states) == [first.key, second.key], "without an answer the old list stands"
        broken = False
        wanted = [second]
        await until(lambda: list(scraper.states) == [second.key])


async def test_database_away_ticks_wait_and_are_all_stored_afterwards(
    clean_redis: str, server: ExpositionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.series.writer.FIRST_BACKOFF_S", 0.05)
    away = False
    append = TickLog.append

    def maybe(self: TickLog, rows: object) -> None:
        if away:
            raise OperationalError("the database is away")
        append(self, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(TickLog, "append", maybe)
    async with running_scraper(clean_redis, [server.target()]) as scraper:
        await until(lambda: scraper.writer.written_rows >= 2)
        away = True
        await until(lambda: scraper.writer.buffered_rows >= 5)
        assert len(await ring(clean_redis)) >= 6, "live frames go on"
        report = await status(clean_redis)
        assert report["commits_failed"] >= 1
        away = False
        await until(lambda: scraper.writer.buffered_rows == 0)
    assert await Tick.objects.acount() == scraper.writer.written_rows
    assert scraper.writer.dropped_rows == 0


async def test_redis_away_scraping_and_storing_go_on_and_the_jump_in_seq_shows(
    tmp_path: Path, server: ExpositionServer
) -> None:
    with running_redis(tmp_path / "r") as url:
        async with running_scraper(url, [server.target()]) as scraper:
            await until(lambda: scraper.publisher.published >= 3)
            await _shutdown(url)
            before = scraper.writer.written_rows
            await until(lambda: scraper.writer.written_rows >= before + 5, message="storing without Redis")
            assert scraper.publisher.faults["publish_failed"] >= 1
            lost = scraper.publisher.faults["frames_not_published"]
            assert lost >= 3
            with running_redis(tmp_path / "r"):
                await until(lambda: scraper.publisher.connected, message="publishing again")
                await until(lambda: scraper.publisher.connected and scraper.ticks > before + 8)
                frames = await ring(url)
                assert frames[0]["seq"] > lost
                assert frames[0]["epoch"] == scraper.frames.epoch


async def _shutdown(url: str) -> None:
    with redis.Redis.from_url(url) as client, contextlib.suppress(redis.RedisError):
        client.shutdown(nosave=True)


async def test_second_scraper_waits_and_takes_over_when_the_first_ends(
    clean_redis: str, server: ExpositionServer
) -> None:
    target = server.target()
    async with running_scraper(clean_redis, [target]) as first:
        await until(lambda: first.ticks >= 2)
        second_run = running_scraper(clean_redis, [target])
        second = await second_run.__aenter__()
        await asyncio.sleep(1.5)
        assert second.ticks == 0
        assert {frame["epoch"] for frame in await ring(clean_redis)} == {first.frames.epoch}
    await until(lambda: second.ticks >= 3, message="the second taking over")
    frames = await ring(clean_redis)
    assert frames[-1]["epoch"] == second.frames.epoch
    await second_run.__aexit__(None, None, None)


async def test_scraper_that_lost_its_lease_ends(clean_redis: str, server: ExpositionServer) -> None:
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 (the end of the block is what raises)
        async with running_scraper(clean_redis, [server.target()]) as scraper:
            await until(lambda: scraper.ticks >= 2)
            with redis.Redis.from_url(clean_redis) as client:
                client.set("fabric:scraper:lease", "somebody else", ex=60)
            await asyncio.sleep(1.5)
    assert caught.value.subgroup(LeaseLost)


async def test_ring_of_a_scraper_whose_clock_was_ahead_begins_anew(clean_redis: str, server: ExpositionServer) -> None:
    with redis.Redis.from_url(clean_redis) as client:
        client.xadd("fabric:ring:overview", {"epoch": "x", "seq": 1, "frame": "{}"}, id="99999999999999-1")
    async with running_scraper(clean_redis, [server.target()]) as scraper:
        await until(lambda: scraper.publisher.published >= 6)
    frames = await ring(clean_redis)
    assert {frame["epoch"] for frame in frames} == {scraper.frames.epoch}
    assert scraper.publisher.faults["ring_restarted"] == 1


async def test_numbers_on_the_wire_are_finite_and_short(clean_redis: str, server: ExpositionServer) -> None:
    counting = asyncio.create_task(keep_counting(server, per_s=7))
    async with running_scraper(clean_redis, [server.target()]) as scraper:
        await until(lambda: scraper.ticks >= 6)
    counting.cancel()
    for frame in await ring(clean_redis):
        for value in frame["kpis"].values():
            assert value is None or math.isfinite(value)
            assert value is None or len(f"{value:g}") <= 12
