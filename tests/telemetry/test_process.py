"""`manage.py scrape` as a process of its own, on a database of its own: killed, started again, ended."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import ROOT
from tests.support.servers import clean_environment, end, running_redis, wait_until
from tests.telemetry.exposition import ExpositionServer
from tests.telemetry.series.history import agent_samples

pytestmark = [pytest.mark.slow]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with running_redis(tmp_path / "r") as url:
        made = clean_environment(FABRIC_HOME=str(tmp_path), REDIS_URL=url, FABRIC_SCRAPE_INTERVAL_S="0.5")
        manage(made, "migrate", "--verbosity", "0")
        yield made


def manage(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def scraping(environment: dict[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "manage.py", "scrape"]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def frames(environment: dict[str, str]) -> list[dict[str, Any]]:
    with redis.Redis.from_url(environment["REDIS_URL"]) as client:
        return [json.loads(fields[b"frame"]) for _, fields in client.xrange("fabric:ring:overview")]


def ticks(environment: dict[str, str]) -> int:
    with sqlite3.connect(Path(environment["FABRIC_HOME"]) / "db.sqlite3") as database:
        return int(database.execute("select count(*) from telemetry_tick").fetchone()[0])


async def test_scrape_process_survives_a_kill_by_being_started_again_and_ends_cleanly(
    environment: dict[str, str],
) -> None:
    async with ExpositionServer(agent_samples(0)) as server:

        async def grow() -> None:
            second = 0
            while True:
                second += 1
                server.samples = dict(agent_samples(second))
                await asyncio.sleep(0.2)

        growing = asyncio.create_task(grow())
        url = f"http://127.0.0.1:{server.port}/metrics"
        await asyncio.to_thread(manage, environment, "register_target", "a", "--kind", "agent", "--url", url)
        process = scraping(environment)
        try:
            await asyncio.to_thread(wait_until, lambda: len(frames(environment)) >= 5, 20, 0.1, "frames")
            process.send_signal(signal.SIGKILL)
            process.wait(5)
            first_epoch, stored = frames(environment)[-1]["epoch"], ticks(environment)
            assert stored >= 4
            process = scraping(environment)
            await asyncio.to_thread(
                wait_until, lambda: frames(environment)[-1]["epoch"] != first_epoch, 20, 0.1, "the next scraper"
            )
            await asyncio.to_thread(wait_until, lambda: ticks(environment) > stored + 3, 20, 0.1, "more ticks")
            last = frames(environment)[-1]
            assert last["kpis"]["lookup_share_miss"] == pytest.approx(0.4)
            started = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 10) == 0
            assert time.monotonic() - started < 5
            with redis.Redis.from_url(environment["REDIS_URL"]) as client:
                assert client.get("fabric:scraper:lease") is None, "the next one need not wait"
        finally:
            growing.cancel()
            end(process)
        out = await asyncio.to_thread(_roll_up, environment)
        assert "None" in out
        with sqlite3.connect(Path(environment["FABRIC_HOME"]) / "db.sqlite3") as database:
            assert database.execute("select count(*) from telemetry_tick").fetchone()[0] >= 8


def _roll_up(environment: dict[str, str]) -> str:
    return manage(environment, "shell", "--no-imports", "-c", "from telemetry.tasks import roll_up; print(roll_up())")


def test_scrape_process_names_what_is_wrong_with_its_settings() -> None:
    environment = clean_environment(FABRIC_SCRAPE_INTERVAL_S="0", PATH=os.environ["PATH"])
    command = [sys.executable, "manage.py", "scrape"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "FABRIC_SCRAPE_INTERVAL_S" in done.stderr
