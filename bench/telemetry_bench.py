"""`python -m bench.telemetry_bench`: live frames to many websockets, and how old a number is when it gets there.

Runs its own Redis, web server and scraper on loopback, in a directory of its own. Two measurements:

- fan-out: frames of about 4 KB published at a fixed rate, received by N websocket clients of this process. Delay is
  from publishing to having the message; CPU is the web process' alone, per message delivered.
- latency: an exposition changes at a random moment; until the frame with the new value is in a client. `total` contains
  the wait for the next scrape; `ours` begins when the scraper was handed the new value.
"""

import argparse
import asyncio
import contextlib
import http.client
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from aiohttp import web
from websockets.asyncio.client import ClientConnection, connect

from bench.machine import cpu_seconds, describe
from bench.servers import ROOT, BenchError, find_program, free_port, running_redis
from telemetry.live.frames import FrameBuilder, Mark
from telemetry.live.publisher import Publisher
from telemetry.live.redis import RedisAddress

FRAME_BYTES = 4096
START_TIMEOUT_S = 60.0
CONNECTS_AT_ONCE = 20
METRIC = 'kvfabric_agent_stored_bytes{tier="dram"}'
SIGN_IN = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from fabric.accounts.models import User
user = User.objects.create_user(username="bench", role="viewer")
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.create()
print(f"{settings.SESSION_COOKIE_NAME}={session.session_key}")
"""


@dataclass(slots=True)
class Fabric:
    """What runs for the bench: environment of its processes, where the web answers, the session cookie."""

    environment: dict[str, str]
    redis_url: str
    port: int
    web_process_id: int
    cookie: str

    @property
    def origin(self) -> str:
        """Scheme, host and port of the site."""
        return f"http://127.0.0.1:{self.port}"


@dataclass(slots=True)
class Delays:
    """Seconds, one entry per observation."""

    values: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Return the smallest value with at least `share` of all at or below it."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@contextlib.contextmanager
def running(command: Sequence[str], environment: dict[str, str], log: Path) -> Iterator[int]:
    """Run a process; yield its id; end it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def running_fabric() -> Iterator[Fabric]:
    """Redis, a migrated database, a signed-in viewer and the web server."""
    with (
        tempfile.TemporaryDirectory(prefix="kvf-bench-") as home,
        running_redis(find_program("redis-server", "valkey-server")) as redis,
    ):
        url = f"redis://:{redis.password}@127.0.0.1:{redis.port}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("FABRIC_") and k != "DATABASE_URL"}
        environment = kept | {"FABRIC_HOME": home, "REDIS_URL": url, "FABRIC_LOG_LEVEL": "WARNING"}
        manage(environment, "migrate", "--verbosity", "0")
        cookie = manage(environment, "shell", "--no-imports", "-c", SIGN_IN).strip()
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "fabric.asgi:application", "--port", str(port)]
        command += [
            "--ws-per-message-deflate",
            "false",
            "--no-access-log",
            "--log-level",
            "warning",
            "--lifespan",
            "off",
        ]
        log = Path(home) / "web.log"
        with running(command, environment, log) as process_id:
            wait_for_web(port, log)
            yield Fabric(environment, url, port, process_id, cookie)


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a management command; return what it printed."""
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.splitlines() or [""]
        raise BenchError(f"manage.py {arguments[0]} failed: {lines[-1]}")
    return done.stdout


def wait_for_web(port: int, log: Path) -> None:
    """Wait until `/livez` answers. Raises `BenchError` when it does not."""
    until_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until_s:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        with contextlib.suppress(OSError):
            connection.request("GET", "/livez")
            if connection.getresponse().status == http.client.OK:
                return
        connection.close()
        time.sleep(0.1)
    raise BenchError(f"the web server did not start: {log.read_text(errors='replace')[-300:]}")


async def connected(fabric: Fabric, gate: asyncio.Semaphore) -> ClientConnection:
    """Open one websocket, subscribe to the overview and take the snapshot."""
    async with gate:
        socket = await connect(
            f"ws://127.0.0.1:{fabric.port}/ws/live/",
            origin=fabric.origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": fabric.cookie},
            compression=None,
            max_queue=None,
        )
        await socket.send('{"op":"subscribe","topic":"overview","resume":null}')
        await socket.recv()
        return socket


async def fan_out(fabric: Fabric, clients: int, per_s: float, seconds: float) -> dict[str, float]:
    """Publish frames to `clients` websockets; return delivered, delays in ms and CPU in µs per delivery."""
    gate = asyncio.Semaphore(CONNECTS_AT_ONCE)
    sockets = await asyncio.gather(*(connected(fabric, gate) for _ in range(clients)))
    sent_at: dict[int, float] = {}
    delays = Delays()

    async def read(socket: ClientConnection) -> None:
        async for text in socket:
            seq = orjson.loads(text)["seq"]
            delays.values.append(time.perf_counter() - sent_at[seq])

    readers = [asyncio.create_task(read(socket)) for socket in sockets]
    cpu_s, frames = cpu_seconds(fabric.web_process_id), round(per_s * seconds)
    await publish(fabric, frames, per_s, sent_at)
    await asyncio.sleep(1.0)
    cpu_s = cpu_seconds(fabric.web_process_id) - cpu_s
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await asyncio.gather(*(socket.close() for socket in sockets))
    return {
        "delivered %": 100 * len(delays.values) / (frames * clients),
        "p50 ms": 1e3 * delays.percentile(0.5),
        "p99 ms": 1e3 * delays.percentile(0.99),
        "CPU µs/delivery": 1e6 * cpu_s / max(1, len(delays.values)),
    }


async def publish(fabric: Fabric, frames: int, per_s: float, sent_at: dict[int, float]) -> None:
    """Publish `frames` frames of about `FRAME_BYTES` at an even pace; note when each began its way."""
    builder = FrameBuilder()
    publisher = Publisher(RedisAddress(fabric.redis_url), builder.started_ms)
    task = asyncio.create_task(publisher.run())
    filler = [Mark(0.0, "filler", "x" * (FRAME_BYTES - 800), "")]
    started_s = time.perf_counter()
    for index in range(frames):
        await asyncio.sleep(max(0.0, started_s + index / per_s - time.perf_counter()))
        (frame,) = builder.build(time.time(), [], [], filler)
        sent_at[frame.seq] = time.perf_counter()
        publisher.offer([frame], b"{}")
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@dataclass(slots=True)
class Exposition:
    """One gauge that the bench sets, and when each of its values was first handed out."""

    value: int = 1
    served_at: dict[int, float] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.Response:
        """Serve it."""
        self.served_at.setdefault(self.value, time.perf_counter())
        return web.Response(text=f"{METRIC} {self.value}\n")


@contextlib.asynccontextmanager
async def exposing(exposition: Exposition) -> AsyncIterator[str]:
    """Serve an exposition; yield its URL."""
    app = web.Application()
    app.router.add_get("/metrics", exposition.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    finally:
        await runner.cleanup()


async def latency(fabric: Fabric, changes: int) -> dict[str, Delays]:
    """Change an exposition at random moments; return the delays `total` and `ours` until a client has the value."""
    exposition = Exposition()
    delays = {"total": Delays(), "ours": Delays()}
    async with exposing(exposition) as url:
        await asyncio.to_thread(manage, fabric.environment, "register_target", "bench", "--kind", "agent", "--url", url)
        command, log = [sys.executable, "manage.py", "scrape"], Path(fabric.environment["FABRIC_HOME"]) / "scrape.log"
        with running(command, fabric.environment, log):
            socket = await connected(fabric, asyncio.Semaphore(1))
            await seen(socket, exposition.value)
            for _ in range(changes):
                await asyncio.sleep(random.uniform(0.3, 1.3))  # not in step with the scrapes
                exposition.value += 1 + secrets.randbelow(5)
                changed_at = time.perf_counter()
                arrived_at = await seen(socket, exposition.value)
                delays["total"].values.append(arrived_at - changed_at)
                delays["ours"].values.append(arrived_at - exposition.served_at[exposition.value])
            await socket.close()
    return delays


async def seen(socket: ClientConnection, value: int) -> float:
    """Wait for the frame that shows `value`; return when it came."""
    async with asyncio.timeout(30):
        while True:
            message = orjson.loads(await socket.recv())
            arrived_at = time.perf_counter()
            if message["type"] == "frame" and message["kpis"]["stored_bytes_dram"] == value:
                return arrived_at


async def measure(options: argparse.Namespace) -> None:
    """Run both measurements and print them."""
    with running_fabric() as fabric:
        for what, value in describe({}):
            print(f"{what:10} {value}")
        print(f"\nFan-out: {options.clients} websockets, {options.per_s:g} frames/s of {FRAME_BYTES} bytes")
        result = await fan_out(fabric, options.clients, options.per_s, options.seconds)
        print("  ".join(f"{name}: {value:.1f}" for name, value in result.items()))
        print(f"\nExposition changed → frame in a browser's socket: {options.changes} changes, scraped every second")
        delays = await latency(fabric, options.changes)
        print(f"{'':8}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}")
        for name, found in delays.items():
            cells = (found.percentile(0.5), found.percentile(0.99), max(found.values))
            print(f"{name:8}" + "".join(f"{1e3 * cell:10.1f}" for cell in cells))


def main() -> None:
    """Parse arguments, measure, or say in one line why not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--per-s", type=float, default=5.0, help="frames published per second")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long frames are published")
    parser.add_argument("--changes", type=int, default=30, help="how often the exposition changes")
    try:
        asyncio.run(measure(parser.parse_args()))
    except BenchError as error:
        sys.exit(f"telemetry_bench: {error}")


if __name__ == "__main__":
    main()
