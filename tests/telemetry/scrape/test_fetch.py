"""Fetching from a real server that misbehaves in every way that one can."""

import asyncio
import gzip
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web

from telemetry.scrape.fetch import Fetcher, FetchError, FetchLimits
from tests.support.servers import free_port
from tests.telemetry.exposition import ExpositionServer

LIMITS = FetchLimits(timeout_s=0.5, max_body_bytes=100_000)


@pytest.fixture
async def server() -> AsyncIterator[ExpositionServer]:
    async with ExpositionServer({"kvfabric_agent_set_bytes_total": 5.0}) as running:
        yield running


async def fetched(server: ExpositionServer, bearer: str = "", limits: FetchLimits = LIMITS) -> bytes:
    async with Fetcher(limits) as fetcher:
        return await fetcher.fetch(server.target(bearer=bearer))


async def reason_of(server: ExpositionServer, limits: FetchLimits = LIMITS) -> str:
    with pytest.raises(FetchError) as caught:
        await fetched(server, limits=limits)
    return caught.value.reason


async def test_fetch_sends_the_bearer_token_and_returns_the_body(server: ExpositionServer) -> None:
    assert await fetched(server, bearer="secret") == b"kvfabric_agent_set_bytes_total 5.0\n"
    assert server.requests[0]["Authorization"] == "Bearer secret"
    assert "Cookie" not in server.requests[0]


async def test_fetch_gzip_is_unpacked(server: ExpositionServer) -> None:
    text = b"kvfabric_agent_set_bytes_total 5.0\n" * 100

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(text), headers={"Content-Encoding": "gzip"})

    server.handler = answer
    assert await fetched(server) == text


async def test_fetch_gzip_bomb_is_refused_without_unpacking_it(server: ExpositionServer) -> None:
    bomb = gzip.compress(b"a" * 50_000_000)
    assert len(bomb) < LIMITS.max_body_bytes

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    server.handler = answer
    started = time.process_time()
    assert await reason_of(server) == "body_too_large"
    assert time.process_time() - started < 0.1


async def test_fetch_endless_body_is_cut_at_the_limit(server: ExpositionServer) -> None:
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"kvfabric_agent_set_bytes_total 5.0\n" * 1000)
            sent += 35_000

    server.handler = answer
    assert await reason_of(server, FetchLimits(5.0, 100_000)) == "body_too_large"
    assert sent < 20_000_000


async def test_fetch_announced_size_over_the_limit_is_refused_unread(server: ExpositionServer) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"a" * (LIMITS.max_body_bytes + 1))

    server.handler = answer
    assert await reason_of(server) == "body_too_large"


async def test_fetch_hanging_and_dribbling_targets_time_out(server: ExpositionServer) -> None:
    async def hang(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async def dribble(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"#")
            await asyncio.sleep(0.05)

    for handler in (hang, dribble):
        server.handler = handler
        started = time.monotonic()
        assert await reason_of(server) == "timeout"
        assert time.monotonic() - started < 2 * LIMITS.timeout_s


async def test_fetch_redirect_is_not_followed(server: ExpositionServer) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/metrics":
            raise web.HTTPFound("/elsewhere")
        return web.Response(text="kvfabric_agent_set_bytes_total 1\n")

    server.handler = answer
    assert await reason_of(server) == "redirect"
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [204, 401, 403, 404, 500, 503])
async def test_fetch_any_other_status_is_named(server: ExpositionServer, status: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status)

    server.handler = answer
    assert await reason_of(server) == f"http_{status}"


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (b"not gzip", "gzip", "broken_answer"),
        (gzip.compress(b"a" * 1000)[:-12], "gzip", "broken_answer"),
        (zlib.compress(b"a"), "deflate", "content_encoding"),
        (b"a", "br", "content_encoding"),
    ],
    ids=["not gzip", "cut off", "deflate", "brotli"],
)
async def test_fetch_broken_encodings_are_refused(
    server: ExpositionServer, body: bytes, encoding: str, reason: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": encoding})

    server.handler = answer
    assert await reason_of(server) == reason


async def test_fetch_connection_that_breaks_in_the_middle(server: ExpositionServer) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"kvfabric_agent_set_bytes_total")
        assert request.transport is not None
        request.transport.abort()
        return response

    server.handler = answer
    assert await reason_of(server) == "broken_answer"


async def test_fetch_nobody_there_and_not_http() -> None:
    server = ExpositionServer()
    server.port = free_port()
    assert await reason_of(server) == "connect"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", server.port):
        assert await reason_of(server) == "broken_answer"


async def test_fetch_tls_that_cannot_be_verified_is_named(server: ExpositionServer) -> None:
    target = replace(server.target(), url=f"https://127.0.0.1:{server.port}/metrics")
    async with Fetcher(LIMITS) as fetcher:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(target)
    assert caught.value.reason in {"tls", "connect"}


async def test_fetch_numeric_forbidden_address_is_refused_unasked() -> None:
    for host in ("169.254.169.254", "[fe80::1]", "224.0.0.1", "0.0.0.0", "[::ffff:169.254.169.254]"):
        target = replace(ExpositionServer().target(), url=f"http://{host}/metrics")
        async with Fetcher(LIMITS) as fetcher:
            with pytest.raises(FetchError, match="forbidden_address"):
                await fetcher.fetch(target)


async def test_fetch_name_of_a_forbidden_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(self: object, host: str, port: int = 0, family: int = 0) -> list[dict[str, object]]:
        return [{"hostname": host, "host": "169.254.169.254", "port": port, "family": family, "proto": 0, "flags": 0}]

    monkeypatch.setattr("aiohttp.ThreadedResolver.resolve", resolve)
    target = replace(ExpositionServer().target(), url="http://metadata.example/metrics")
    async with Fetcher(LIMITS) as fetcher:
        with pytest.raises(FetchError, match="forbidden_address"):
            await fetcher.fetch(target)
