"""A real runtime over a real store, and the management side running beside the peer that plays the control plane."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.config import AgentConfig
from agent.engines.dram import MemoryPool
from agent.engines.flash import FlashEngine
from agent.engines.io_pool import IoPool
from agent.manage import run_manage
from agent.manage.identity import Identity, IdentityStore
from agent.runtime import AgentRuntime
from agent.tiers import TieredStore
from kvcache.policy import ResolvedPolicy, TierLimits
from tests.agent.manage.control_plane import ControlPlane, eventually, serving

MIB = 1 << 20


@dataclass
class Manage:
    """A running management side: its runtime, where it answers, and a client's session."""

    runtime: AgentRuntime
    url: str
    session: aiohttp.ClientSession
    state_dir: Path

    @property
    def identity(self) -> Identity | None:
        """What the identity file says."""
        return IdentityStore(self.state_dir).load()

    @property
    def metrics_token(self) -> str:
        """The local bearer token."""
        return (self.state_dir / "metrics_token").read_text().strip()

    async def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Return status and body of a read."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.get(self.url + path, headers=headers) as response:
            return response.status, await response.text()

    async def put(self, body: bytes | str, **headers: str) -> tuple[int, dict[str, Any]]:
        """Push a body to /manage/v1/desired; return status and the answer."""
        sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): v for name, v in headers.items()}
        async with self.session.put(self.url + "/manage/v1/desired", data=body, headers=sent) as response:
            assert response.content_type in {"application/json", "application/problem+json"}
            return response.status, await response.json(content_type=None)

    async def status(self) -> dict[str, Any]:
        """Return the status, read with the local token."""
        import json

        code, body = await self.get("/manage/v1/status", self.metrics_token)
        assert code == 200
        return dict(json.loads(body))

    async def condition(self, kind: str) -> dict[str, Any]:
        """Return one condition of the status."""
        return next(item for item in (await self.status())["conditions"] if item["type"] == kind)


Runtimes = Callable[..., AgentRuntime]


@pytest.fixture
def make_runtime(tmp_path: Path) -> Iterator[Runtimes]:
    """Make runtimes over real stores in a state directory of the test's own; closes them at the end."""
    stores: list[TieredStore] = []

    def make(**settings: Any) -> AgentRuntime:
        defaults: dict[str, Any] = {
            "state_dir": tmp_path / "state",
            "manage_port": 0,
            "dram_limit_bytes": 8 * MIB,
            "flash_limit_bytes": 16 * MIB,
            "io_threads": 1,
        }
        config = AgentConfig(**(defaults | settings))
        IdentityStore(config.state_dir)

        def store_for(policy: ResolvedPolicy) -> TieredStore:
            limits = TierLimits(int(config.dram_limit_bytes), int(config.flash_limit_bytes))
            engine = FlashEngine(config.flash_path, limits.flash_bytes, int(config.flash_slot_bytes))
            pool = MemoryPool(limits.dram_bytes + 8 * MIB)
            store = TieredStore(policy=policy, limits=limits, engine=engine, pool=pool, io=IoPool(1))
            store.start(1, 0.25)
            stores.append(store)
            return store

        for store in stores:  # one process at a time holds the flash file
            store.close()
        stores.clear()
        return AgentRuntime(config, store_for)

    yield make
    for store in stores:
        store.close()


@asynccontextmanager
async def managed(runtime: AgentRuntime) -> AsyncIterator[Manage]:
    """Run the management side of `runtime` while the context lasts."""
    stop, ports = asyncio.Event(), asyncio.Queue[int]()
    task = asyncio.create_task(run_manage(runtime, stop, on_listening=ports.put_nowait))
    port_task = asyncio.create_task(ports.get())
    await asyncio.wait({task, port_task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        port_task.cancel()
        await task
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
            yield Manage(runtime, f"http://127.0.0.1:{port_task.result()}", session, runtime.config.state_dir)
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)


@pytest.fixture
def control_plane() -> ControlPlane:
    """The peer, not yet serving."""
    return ControlPlane()


@pytest.fixture
async def control_plane_port(control_plane: ControlPlane) -> AsyncIterator[int]:
    """The peer's port while it serves."""
    async with serving(control_plane) as port:
        yield port


Enrolled = Callable[..., AbstractAsyncContextManager[Manage]]


@pytest.fixture
def enrolled(make_runtime: Runtimes, control_plane: ControlPlane, control_plane_port: int, tmp_path: Path) -> Enrolled:
    """Return a context that runs a management side which has enrolled with the peer."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncIterator[Manage]:
        token_file = tmp_path / "join-token"
        if not (tmp_path / "state/identity.json").exists():
            token_file.write_text(control_plane.new_token() + "\n")
        runtime = make_runtime(
            control_plane_url=f"http://127.0.0.1:{control_plane_port}", join_token_file=token_file, **settings
        )
        runtime.set_ready()
        before = len(control_plane.beats)
        async with managed(runtime) as manage:
            await eventually(lambda: len(control_plane.beats) > before, "the first heartbeat")
            yield manage

    return start
