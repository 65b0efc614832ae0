"""Both ends of a live stream, real: frames go through Redis to a uvicorn, and come out of a websocket client."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any
from uuid import UUID

import orjson
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from telemetry.live.frames import FrameBuilder, Mark
from telemetry.live.publisher import Publisher
from telemetry.live.redis import RedisAddress
from tests.support.servers import free_port


@contextlib.contextmanager
def running_web(app: str = "fabric.asgi:application") -> Iterator[str]:
    """Run uvicorn in a thread with the flags of production; yield host:port."""
    port = free_port()
    config = uvicorn.Config(
        app, port=port, ws_per_message_deflate=False, ws_max_size=16384, lifespan="off", log_level="warning"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="uvicorn")
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "uvicorn ended"
        assert time.monotonic() < deadline, "uvicorn did not start"
        time.sleep(0.02)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(15)
        assert not thread.is_alive()


class LiveClient:
    """One websocket, as a browser speaks it."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, **message: Any) -> None:
        await self.socket.send(orjson.dumps(message).decode())

    async def subscribe(self, topic: str = "overview", resume: Any = None) -> None:
        await self.send(op="subscribe", topic=topic, resume=resume)

    async def receive(self, timeout_s: float = 5.0) -> dict[str, Any]:
        async with asyncio.timeout(timeout_s):
            return dict(orjson.loads(await self.socket.recv()))

    async def expect(self, kind: str, timeout_s: float = 5.0) -> dict[str, Any]:
        message = await self.receive(timeout_s)
        assert message["type"] == kind, message
        return message

    async def silent(self, for_s: float = 0.3) -> bool:
        try:
            message = await self.receive(for_s)
        except TimeoutError:
            return True
        raise AssertionError(f"unexpected {message}")

    async def close_code(self, timeout_s: float = 10.0) -> int | None:
        """Read until the server closes; return its code."""
        async with asyncio.timeout(timeout_s):
            try:
                while True:
                    await self.socket.recv()
            except ConnectionClosed:
                return self.socket.close_code


@contextlib.asynccontextmanager
async def live(web: str, cookie: str | None, **options: Any) -> AsyncIterator[LiveClient]:
    headers = {"Cookie": f"fabric_session={cookie}"} if cookie else {}
    defaults = {"origin": f"http://{web}", "additional_headers": headers, "compression": None, "max_size": None}
    # The client library stops reading at 16 messages that nobody took, and then cannot even close: browsers do not.
    defaults["max_queue"] = None
    options = defaults | options
    async with connect(f"ws://{web}/ws/live/", **options) as socket:
        yield LiveClient(socket)


class Feed:
    """Publishes frames as the scraper does, one tick at a call."""

    def __init__(self, redis_url: str) -> None:
        self.builder = FrameBuilder()
        self.publisher = Publisher(RedisAddress(redis_url), self.builder.started_ms)
        self._task = asyncio.create_task(self.publisher.run())

    async def push(self, count: int = 1, pool_ids: Sequence[UUID] = (), marks: Sequence[Mark] = ()) -> int:
        """Publish `count` ticks; return the last `seq` of the overview."""
        seq = 0
        for _ in range(count):
            frames = self.builder.build(time.time(), [], pool_ids, marks)
            seq = frames[0].seq
            done = self.publisher.published + len(frames)
            self.publisher.offer(frames, b"{}")
            while self.publisher.published < done:
                await asyncio.sleep(0.001)
        return seq

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
