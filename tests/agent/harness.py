"""A storage agent's data plane for tests: in this process over real sockets and files, or as a process of its own."""

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from agent.config import AgentConfig
from agent.engines.dram import MemoryPool, Value
from agent.engines.flash import FlashEngine
from agent.engines.io_pool import IoPool, Scratch
from agent.resp.commands import execute
from agent.resp.server import RespServer
from agent.tiers import BlockRead, Found, TieredStore
from kvcache.policy import ResolvedPolicy, ResolvedTier, TierLimits
from tests.support.servers import clean_environment, end, free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse"
KIB = 1 << 10
MIB = 1 << 20


def payload(key: bytes | str | int, size: int) -> bytes:
    """Return bytes that follow from the key alone, so that any wrong byte is seen."""
    seed = hashlib.sha256(str(key).encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


def policy(
    dram: int, flash: int, *, promote_after: int = 1, keep: bool = True, ttl_s: float | None = None
) -> ResolvedPolicy:
    """Return a policy of that many bytes."""
    return ResolvedPolicy(
        dram=ResolvedTier.of_bytes(dram, ttl_s=ttl_s),
        flash=ResolvedTier.of_bytes(flash, ttl_s=ttl_s),
        promote_after_hits=promote_after,
        keep_on_promote=keep,
    )


def fill(pool: MemoryPool, data: bytes) -> Value:
    """Return `data` as a sealed value in the pool's memory."""
    value = pool.allocate(len(data), overdraft=True)
    assert value is not None
    at = 0
    for view in value.views:
        memoryview(view)[:] = data[at : at + len(view)]
        at += len(view)
    value.seal()
    return value


def resolve(found: Found, timeout_s: float = 30.0) -> bytes | None:
    """Return the bytes of a lookup's answer, read from flash if need be."""
    if isinstance(found, BlockRead):
        ready = threading.Event()
        box: list[Value | None] = []

        def take(value: Value | None) -> None:
            box.append(value)
            ready.set()

        found.begin(take)
        assert ready.wait(timeout_s), "the read did not end"
        found = box[0]
    return None if found is None else found.tobytes()


@dataclass
class Clock:
    """A clock that moves when told."""

    now_s: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Plane:
    """A store with everything below it."""

    store: TieredStore
    engine: FlashEngine
    pool: MemoryPool
    io: IoPool
    clock: Callable[[], float]
    path: Path

    def set(self, key: bytes, data: bytes) -> bool:
        """Store a block; wait for what must be on the device first."""
        insertion = self.store.set_many([(key, fill(self.pool, data))])
        done = threading.Event()
        insertion.barrier.when_done(done.set)
        assert done.wait(10)
        return insertion.admitted[0]

    def get(self, key: bytes) -> bytes | None:
        """Look a block up."""
        return resolve(self.store.lookup([key])[0])

    def settle(self) -> None:
        """Wait until nothing is on its way to flash and no read is under way."""
        mover = self.store._mover
        wait_until(lambda: not mover.writing_bytes and not mover.reading, timeout_s=30, message="quiet store")

    def tier(self, name: str) -> Any:
        """Return the snapshot of a tier."""
        return next(tier for tier in self.store.tier_snapshots() if tier.tier == name)


@contextlib.contextmanager
def plane(
    directory: Path,
    *,
    dram: int = MIB,
    flash: int = 8 * MIB,
    slot_bytes: int = 68 * KIB,
    io: str = "auto",
    inflight: int = 16 * MIB,
    clock: Callable[[], float] = time.time,
    sweep_interval_s: float = 0.05,
    engine_type: type[FlashEngine] = FlashEngine,
    policy_: ResolvedPolicy | None = None,
    limits: tuple[int, int] | None = None,
    start: bool = True,
) -> Iterator[Plane]:
    """A store over a flash file in `directory`."""
    limit_dram, limit_flash = limits or (dram, flash)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "flash.kvf"
    engine = engine_type(path, limit_flash, slot_bytes, io)
    pool = MemoryPool(limit_dram + inflight)
    threads = IoPool(4)
    store = TieredStore(
        policy=policy_ or policy(dram, flash),
        limits=TierLimits(limit_dram, limit_flash),
        engine=engine,
        pool=pool,
        io=threads,
        clock=clock,
    )
    if start:
        store.start(2, sweep_interval_s)
    try:
        yield Plane(store, engine, pool, threads, clock, path)
    finally:
        store.close()


@dataclass
class Served:
    """A served store."""

    plane: Plane
    server: RespServer
    port: int
    config: AgentConfig
    clients: list[redis.Redis] = field(default_factory=list)

    def client(self, **options: Any) -> redis.Redis:
        """Return a redis-py client; closed at the end."""
        settings = {"port": self.port, "password": PASSWORD, "socket_timeout": 30, "retry": None} | options
        client = redis.Redis(**settings)
        self.clients.append(client)
        return client

    def raw(self, *, authenticated: bool = True, timeout_s: float = 30.0) -> "Raw":
        """Return a bare socket."""
        raw = Raw(self.port, timeout_s)
        if authenticated:
            assert raw.call(b"AUTH", PASSWORD.encode()) == b"+OK\r\n"
        return raw


class Raw:
    """A socket with just enough RESP to test with."""

    def __init__(self, port: int, timeout_s: float = 30.0) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)

    def send(self, data: bytes) -> None:
        """Send raw bytes; a peer that closed already is no error here."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(data)

    def line(self) -> bytes:
        """Receive one line, or what came before the end of the stream."""
        got = b""
        while not got.endswith(b"\r\n"):
            byte = self.sock.recv(1)
            if not byte:
                break
            got += byte
        return got

    def exactly(self, size: int) -> bytes:
        """Receive that many bytes, fewer at the end of the stream."""
        got = bytearray()
        while len(got) < size:
            data = self.sock.recv(min(size - len(got), 1 << 20))
            if not data:
                break
            got += data
        return bytes(got)

    def call(self, *arguments: bytes) -> bytes:
        """Send one command, return the first line of its reply."""
        self.send(command(*arguments))
        return self.line()

    def closed(self) -> bool:
        """Read to the end of the stream."""
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def command(*arguments: bytes) -> bytes:
    """Encode a command."""
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%b\r\n" % (len(one), one) for one in arguments)


@contextlib.contextmanager
def served(directory: Path, *, settings: dict[str, Any] | None = None, **options: Any) -> Iterator[Served]:
    """A store behind a RESP door on a free port, in this process."""
    directory.mkdir(parents=True, exist_ok=True)
    config = AgentConfig(state_dir=directory, resp_port=0, **(settings or {}))
    if "inflight_limit_bytes" in (settings or {}):
        options.setdefault("inflight", int(config.inflight_limit_bytes))
    with plane(directory, **options) as below:
        server = RespServer(config, below.store, PASSWORD, execute)
        server.start()
        result = Served(below, server, server.port, config)
        try:
            yield result
        finally:
            for client in result.clients:
                client.close()
            server.stop(2.0)
    server.release()


@dataclass
class Process:
    """An agent as a process of its own."""

    state_dir: Path
    port: int
    manage_port: int
    settings: dict[str, str]
    child: "subprocess.Popen[str] | None" = None

    def start(self) -> None:
        """Start it and wait until it serves."""
        environment = clean_environment(
            KVAGENT_STATE_DIR=str(self.state_dir),
            KVAGENT_RESP_PORT=str(self.port),
            KVAGENT_MANAGE_PORT=str(self.manage_port),
            **self.settings,
        )
        log = (self.state_dir.parent / f"{self.state_dir.name}.log").open("a")
        self.child = subprocess.Popen(
            [sys.executable, "-m", "agent"], cwd=ROOT, env=environment, stdout=log, stderr=log, text=True
        )
        log.close()
        wait_until(self._answers, timeout_s=20, message="the agent serves")

    @property
    def password(self) -> str:
        """The password in its state directory."""
        return (self.state_dir / "resp_password").read_text()

    def client(self, **options: Any) -> redis.Redis:
        """Return a redis-py client."""
        return redis.Redis(port=self.port, password=self.password, socket_timeout=20, retry=None, **options)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.child is not None
        self.child.send_signal(signal.SIGKILL)
        self.child.wait(10)

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        assert self.child is not None
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(15)

    def log(self) -> str:
        """What it wrote."""
        return (self.state_dir.parent / f"{self.state_dir.name}.log").read_text()

    def _answers(self) -> bool:
        assert self.child is not None
        assert self.child.poll() is None, f"the agent ended: {self.log()}"
        try:
            with self.client() as client:
                return bool(client.ping())
        except (redis.ConnectionError, OSError):
            return False


@contextlib.contextmanager
def process(directory: Path, **settings: str) -> Iterator[Process]:
    """An agent process, started; ended at the latest here."""
    agent = Process(directory / "state", free_port(), free_port(), settings)
    agent.state_dir.mkdir(parents=True)
    try:
        agent.start()
        yield agent
    finally:
        if agent.child is not None:
            end(agent.child)


def scratch() -> Scratch:
    """Page-aligned memory as an I/O thread has it."""
    return Scratch()


def rss_bytes(pid: int | None = None) -> int:
    """Return the resident memory of a process."""
    with open(f"/proc/{pid or os.getpid()}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
