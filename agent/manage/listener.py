"""The management door: an HTTP listener with limits on connections, headers, idle time and TLS handshakes."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator

from aiohttp import web

from agent.config import AgentConfig, ConfigError
from agent.manage.problem import Problem

MAX_CONNECTIONS = 128
MAX_HEADER_LINE_BYTES = 8190
MAX_HEADERS = 64
IDLE_TIMEOUT_S = 15.0
"""A connection without a complete request for so long is closed; half-sent headers do not extend it."""
TLS_HANDSHAKE_TIMEOUT_S = 10.0
SHUTDOWN_TIMEOUT_S = 2.0

logger = logging.getLogger("agent.manage")


class ManageHandler(web.RequestHandler):
    """aiohttp's connection handler, answering what is no HTTP with a problem body and one line in the log."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to a request that never reached the application."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        logger.info("refused a request of %s: %s", request.remote, type(exc).__name__)
        client_error = status < 500
        kind, detail = (
            ("bad-request", "not an HTTP request, or its headers are too large")
            if client_error
            else ("internal", "an error of the agent: see its log")
        )
        response = Problem(status, kind, detail).response()
        response.force_close()
        return response


class _TooMany(asyncio.Protocol):
    """Closes a connection above the limit at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@contextlib.asynccontextmanager
async def listening(app: web.Application, config: AgentConfig) -> AsyncIterator[int]:
    """Serve `app` on the management door while the context lasts; yields the port.

    Raises:
        ConfigError: open beyond loopback without TLS, certificate unusable, or address in use.
    """
    config.check_doors()
    tls = _tls_context(config)
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    try:
        server = await _create_server(runner, config, tls)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
    finally:
        await runner.cleanup()


async def _create_server(runner: web.AppRunner, config: AgentConfig, tls: ssl.SSLContext | None) -> asyncio.Server:
    manager = runner.server
    assert manager is not None
    loop = asyncio.get_running_loop()

    def protocol() -> asyncio.Protocol:
        if len(manager.connections) >= MAX_CONNECTIONS:
            return _TooMany()
        return ManageHandler(
            manager,
            loop=loop,
            keepalive_timeout=IDLE_TIMEOUT_S,
            lingering_time=1.0,
            access_log=None,  # type: ignore[arg-type]
            max_line_size=MAX_HEADER_LINE_BYTES,
            max_field_size=MAX_HEADER_LINE_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
        )

    timeout_s = TLS_HANDSHAKE_TIMEOUT_S if tls else None
    try:
        return await loop.create_server(
            protocol, config.manage_host, config.manage_port, ssl=tls, ssl_handshake_timeout=timeout_s, backlog=128
        )
    except OSError as error:
        where = f"{config.manage_host}:{config.manage_port}"
        raise ConfigError(
            f"the management door cannot listen on {where} ({error.strerror}): "
            "set KVAGENT_MANAGE_HOST and KVAGENT_MANAGE_PORT to a free address of this machine"
        ) from error


def _tls_context(config: AgentConfig) -> ssl.SSLContext | None:
    if config.tls_cert_file is None or config.tls_key_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(config.tls_cert_file, config.tls_key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"KVAGENT_TLS_CERT_FILE / KVAGENT_TLS_KEY_FILE cannot be used: {error}") from error
    return context
