"""One HTTP GET of an exposition, with a limit on everything: time, bytes on the wire and unpacked, where it leads."""

import socket
import ssl
import zlib
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from telemetry.domain import is_forbidden_address, is_forbidden_literal
from telemetry.targets import Target

_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
_CHUNK_BYTES = 65_536


class FetchError(Exception):
    """A scrape that failed; `reason` is a short code that counters and pages show."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Seconds for the whole of one scrape, and bytes of a body (compressed or not)."""

    timeout_s: float
    max_body_bytes: int


class Fetcher:
    """An HTTP client for one event loop: connections are kept, cookies and redirects are not."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=GuardedResolver(), keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._limits.timeout_s),
            auto_decompress=False,
            headers={"Accept": _ACCEPT, "Accept-Encoding": "gzip", "User-Agent": "kvfabric-scraper"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch(self, target: Target) -> bytes:
        """Return the unpacked body. Raises `FetchError`, whatever happens."""
        if self._session is None:
            raise RuntimeError("use the fetcher as an async context manager")
        if target.problem:
            raise FetchError(target.problem)
        if is_forbidden_literal(urlsplit(target.url).hostname or ""):  # aiohttp asks no resolver about these
            raise FetchError("forbidden_address")
        headers = {"Authorization": f"Bearer {target.bearer}"} if target.bearer else {}
        try:
            async with self._session.get(target.url, headers=headers, allow_redirects=False) as response:
                return await self._body(response)
        except TimeoutError as error:
            raise FetchError("timeout") from error
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            raise FetchError("tls") from error
        except aiohttp.ClientConnectorError as error:
            raise FetchError("forbidden_address" if isinstance(error.os_error, _Forbidden) else "connect") from error
        except (aiohttp.ClientError, OSError, ValueError, zlib.error) as error:
            raise FetchError("broken_answer") from error

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        if 300 <= response.status < 400:
            raise FetchError("redirect")
        if response.status != 200:
            raise FetchError(f"http_{response.status}")
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            raise FetchError("content_encoding")
        limit = self._limits.max_body_bytes
        if (response.content_length or 0) > limit:
            raise FetchError("body_too_large")
        unpack = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        parts: list[bytes] = []
        size = received = 0
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            received += len(chunk)
            # One byte past the limit is enough to know; a bomb is never unpacked further.
            part = unpack.decompress(chunk, limit - size + 1) if unpack else chunk
            size += len(part)
            if size > limit or received > limit:
                raise FetchError("body_too_large")
            parts.append(part)
        if unpack and not unpack.eof:
            raise FetchError("broken_answer")
        return b"".join(parts)


class _Forbidden(OSError):
    """A name that resolves to an address which is never scraped."""


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses those of which any address is link-local, multicast or unspecified."""

    def __init__(self) -> None:
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of `host`. Raises `OSError`."""
        found = await self._resolver.resolve(host, port, family)
        if any(is_forbidden_address(entry["host"]) for entry in found):
            raise _Forbidden(f"{host} resolves to an address that is never scraped")
        return found

    async def close(self) -> None:
        """Nothing is held."""
        await self._resolver.close()
