"""The replay client's `/metrics`: Prometheus text for whoever holds the bearer token."""

import hmac
from collections.abc import Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

MAX_BODY_BYTES = 1024


async def serve_metrics(exposition: Callable[[], bytes], token: str, host: str, port: int) -> web.AppRunner:
    """Start serving and return the runner, whose `cleanup` ends it. Raises `OSError` when the port is taken."""

    async def metrics(request: web.Request) -> web.Response:
        if not _is_bearer(request.headers.get("Authorization", ""), token):
            return web.Response(status=401, text="a bearer token is needed\n", headers={"WWW-Authenticate": "Bearer"})
        return web.Response(body=exposition(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner


def _is_bearer(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
