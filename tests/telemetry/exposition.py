"""A real HTTP server that speaks the exposition format: the other end of the scraper's wire."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Self
from uuid import UUID, uuid4

from aiohttp import web

from telemetry.targets import Target

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def exposition(samples: Mapping[str, float]) -> str:
    return "".join(f"{text} {value!r}\n" for text, value in samples.items())


class ExpositionServer:
    """Answers `/metrics` with `samples`, or `body`, or with whatever `handler` does; remembers requests."""

    def __init__(self, samples: Mapping[str, float] | None = None) -> None:
        self.samples = dict(samples or {})
        self.body = ""
        self.handler: Handler | None = None
        self.requests: list[Mapping[str, str]] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        app.router.add_get("/elsewhere", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(dict(request.headers))
        if self.handler is not None:
            return await self.handler(request)
        return web.Response(text=self.body or exposition(self.samples))

    def target(
        self, name: str = "a", *, agent_id: UUID | None = None, pool_id: UUID | None = None, bearer: str = ""
    ) -> Target:
        """Return this server as an agent's target."""
        agent_id = agent_id or uuid4()
        return Target(
            f"agent:{agent_id}",
            name,
            "agent",
            f"http://127.0.0.1:{self.port}/metrics",
            bearer,
            agent_id=agent_id,
            pool_id=pool_id,
            page_url=f"/agents/{agent_id}/",
        )


async def until(condition: Callable[[], object], timeout_s: float = 10.0, message: str = "the condition") -> None:
    """Wait until `condition` holds."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"{message} did not hold within {timeout_s} s"
        await asyncio.sleep(0.02)
