"""A server that speaks the live protocol (docs/contracts.md, section 5) as told by a test, around real pages.

The pages are what Django rendered, under the very CSP that it sent; only who makes the frames differs from production.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web
from django.contrib.staticfiles import finders

TOPIC = "overview"
AGENT_ID = "11111111-1111-1111-1111-111111111111"


@dataclass(frozen=True)
class Captured:
    """A page as Django served it."""

    body: str
    headers: dict[str, str]


@dataclass
class LiveServer:
    """Makes a frame every `interval_s`; a test changes what it does by its attributes, from any thread."""

    pages: dict[str, Captured]
    interval_s: float = 0.25
    frozen: bool = False
    refuse_sockets: bool = False
    refuse_polls: bool = False
    agent_state: str = "live"
    agents: int = 1
    kpis: Callable[[int], dict[str, float | None]] = field(default=lambda seq: {"prefix_hit_ratio_blocks": 0.5})
    marks: list[dict[str, Any]] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    heard: list[dict[str, Any]] = field(default_factory=list)
    polls: list[str] = field(default_factory=list)
    epoch: str = "e1"
    seq: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self._sockets: set[web.WebSocketResponse] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        """Listen on a free port of the loopback address."""
        self._thread.start()
        self._call(self._start())

    def stop(self) -> None:
        """End everything."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def drop(self, code: int = 1012) -> None:
        """Close every websocket."""
        self._call(self._drop(code))

    def begin_epoch(self, name: str) -> None:
        """Count anew, as a scraper that was restarted does; viewers are told by their next frame."""
        self.epoch, self.seq, self.frames = name, 0, []
        self._call(self._send({"type": "reset", "topic": TOPIC, "epoch": name}))

    def burst(self, count: int) -> None:
        """Send many frames at once."""
        for _ in range(count):
            self._call(self._tick())

    def skip(self, count: int) -> None:
        """Make frames that viewers are not sent, as for a reader that was slow."""
        for _ in range(count):
            self._make()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/ws/live/", self._socket)
        app.router.add_get("/static/{path:.+}", self._static)
        app.router.add_get("/api/v1/telemetry/topics/{topic}/frames/", self._frames)
        app.router.add_get("/{path:.*}", self._page)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._ticker = asyncio.create_task(self._run())

    async def _stop(self) -> None:
        self._ticker.cancel()
        await self._drop(1001)
        await self._runner.cleanup()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.interval_s)
            if not self.frozen:
                await self._tick()

    def _make(self) -> dict[str, Any]:
        self.seq += 1
        kpis = self.kpis(self.seq)
        agents = [
            {"id": f"{AGENT_ID[:-2]}{n:02}", "name": f"kv-{n:02}", "state": self.agent_state, "age_s": 0.5}
            | {"kpis": {name: None if v is None else v * n for name, v in kpis.items()}}
            for n in range(1, self.agents + 1)
        ]
        marks, self.marks = self.marks, []
        frame = {
            "type": "frame", "topic": TOPIC, "epoch": self.epoch, "seq": self.seq, "at_s": time.time(),
            "kpis": kpis, "agents": agents, "marks": marks,
        }  # fmt: skip
        self.frames = [*self.frames, frame][-300:]
        return frame

    async def _tick(self) -> None:
        await self._send(self._make())

    async def _send(self, message: dict[str, Any]) -> None:
        for socket in list(self._sockets):
            if not socket.closed:
                await socket.send_str(json.dumps(message))

    async def _drop(self, code: int) -> None:
        for socket in list(self._sockets):
            await socket.close(code=code)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if self.refuse_sockets:
            return web.Response(status=403)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            asked = json.loads(message.data)
            self.heard.append(asked)
            if asked["op"] == "ping":
                await socket.send_str(json.dumps({"type": "pong", "server_time_s": time.time()}))
            elif asked["op"] == "subscribe" and asked["topic"] == TOPIC:
                await self._subscribe(socket, asked.get("resume"))
                self._sockets.add(socket)
        self._sockets.discard(socket)
        return socket

    async def _subscribe(self, socket: web.WebSocketResponse, resume: dict[str, Any] | None) -> None:
        if resume and resume["epoch"] == self.epoch:
            for frame in self.frames:
                if frame["seq"] > resume["seq"]:
                    await socket.send_str(json.dumps(frame))
            return
        if resume:
            await socket.send_str(json.dumps({"type": "reset", "topic": TOPIC, "epoch": self.epoch}))
        head = {"type": "snapshot", "topic": TOPIC, "epoch": self.epoch, "seq": self.seq}
        await socket.send_str(json.dumps(head | {"frames": self.frames}))

    async def _frames(self, request: web.Request) -> web.Response:
        after = request.query.get("after", "")
        self.polls.append(after)
        if self.refuse_polls:
            return web.Response(status=503)
        epoch, _, seq = after.partition(":")
        known = epoch == self.epoch
        frames = [f for f in self.frames if not known or f["seq"] > int(seq)]
        body = {
            "topic": TOPIC,
            "epoch": self.epoch,
            "seq": self.seq,
            "reset": bool(epoch) and not known,
            "frames": frames,
        }
        return web.json_response(body)

    async def _static(self, request: web.Request) -> web.StreamResponse:
        path = finders.find(request.match_info["path"])
        return web.FileResponse(path) if isinstance(path, str) else web.Response(status=404)

    async def _page(self, request: web.Request) -> web.Response:
        if request.path == "/status/":
            return web.Response(status=204)
        key = f"dialog:{request.path}" if request.headers.get("X-Fragment") else request.path
        page = self.pages.get(key)
        if page is None:
            return web.Response(status=404)
        return web.Response(text=page.body, content_type="text/html", headers=page.headers)
