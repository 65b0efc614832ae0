"""The agent's calls to the control plane: bounded in time and size, TLS verified, every failure named."""

import asyncio
import ipaddress
import json
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from pydantic import ValidationError
from yarl import URL

from agent.config import ConfigError
from agent.protocol import MAX_BODY_BYTES, Message, Refusal
from agent.runtime import AGENT_VERSION

CONNECT_TIMEOUT_S = 5.0
TOTAL_TIMEOUT_S = 10.0
"""A control plane that answers no sooner is unreachable."""
KEEPALIVE_S = 3.0
"""Below the idle timeout of common servers (uvicorn: 5 s): a request on a connection just being closed is lost."""
MAX_DETAIL_CHARS = 300

R = TypeVar("R", bound=Message)


class Unreachable(Exception):
    """No answer that could be used. `reason` is one word; `retry_after_s` what the control plane asked for."""

    def __init__(self, reason: str, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Refused(Exception):
    """The control plane said no (4xx). `refusal` is its machine-readable reason where it gave one that we know."""

    def __init__(self, status: int, refusal: Refusal | None, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.refusal = refusal

    @property
    def reason(self) -> str:
        """Return one word for conditions and logs."""
        return str(self.refusal) if self.refusal else f"http-{self.status}"


def check_control_plane_url(text: str) -> URL:
    """Return the control plane's address; plain HTTP is for this very machine only.

    Raises:
        ConfigError: not an address, with a credential in it, or http:// to another machine.
    """
    setting = "KVAGENT_CONTROL_PLANE_URL"
    try:
        url = URL(text)
        host, scheme = url.host, url.scheme
    except ValueError as error:
        raise ConfigError(f"{setting} is not an address: write https://HOST:PORT") from error
    if scheme not in ("http", "https") or not host:
        raise ConfigError(f"{setting} must be https://HOST:PORT (or http:// to this machine)")
    if url.user or url.password or url.query_string or url.fragment:
        raise ConfigError(f"{setting} must hold no credential, query or fragment: write https://HOST:PORT")
    if scheme == "http" and not _literal_loopback(host):
        raise ConfigError(f"{setting} uses http:// to {host}: another machine is only spoken to over https://")
    return url.with_path(url.path.rstrip("/"))


class ControlPlaneClient:
    """One HTTP session with the control plane; an async context manager."""

    def __init__(self, url: URL, ca_file: Path | None = None, *, total_timeout_s: float = TOTAL_TIMEOUT_S) -> None:
        """Prepare the session's TLS.

        Raises:
            ConfigError: the CA file cannot be used.
        """
        self._url = url
        self._timeout = aiohttp.ClientTimeout(total=total_timeout_s, connect=min(CONNECT_TIMEOUT_S, total_timeout_s))
        try:
            self._tls = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"KVAGENT_CONTROL_PLANE_CA_FILE {ca_file} cannot be used: {error}") from error
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=2, keepalive_timeout=KEEPALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            headers={"User-Agent": f"kvagent/{AGENT_VERSION}", "Accept-Encoding": "identity"},
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, path: str, message: Message, reply: type[R], token: str | None = None) -> R:
        """Send `message` to `path` and return the answer as `reply`.

        Raises:
            Unreachable: no connection, no answer in time, 429, 5xx, or an answer that is not `reply`.
            Refused: any other 4xx.
        """
        assert self._session is not None, "use it as an async context manager"
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        body = message.model_dump_json().encode()
        try:
            async with self._session.post(
                self._url / path.lstrip("/"), data=body, headers=headers, allow_redirects=False
            ) as response:
                answer = await _read_bounded(response)
        except TimeoutError as error:
            raise Unreachable("timeout", "no answer in time") from error
        except aiohttp.ClientSSLError as error:
            raise Unreachable("tls", f"TLS failed: {error}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable("connect", str(error) or type(error).__name__) from error
        return _parse(response, answer, reply)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise Unreachable("protocol", "the answer is larger than 1 MiB")
    return bytes(data)


def _parse(response: aiohttp.ClientResponse, answer: bytes, reply: type[R]) -> R:
    status = response.status
    if status == 200:
        try:
            return reply.model_validate_json(answer)
        except ValidationError as error:
            fields = ", ".join(".".join(map(str, item["loc"])) or item["type"] for item in error.errors()[:5])
            raise Unreachable("protocol", f"the answer is no {reply.__name__} of protocol v1: {fields}") from error
    refusal, detail = _problem(answer)
    if status == 429 or status >= 500:
        raise Unreachable(f"http-{status}", detail or f"answered {status}", _retry_after_s(response))
    if 300 <= status < 400:
        place = response.headers.get("Location", "elsewhere")[:MAX_DETAIL_CHARS]
        raise Unreachable("redirect", f"answered with a redirect to {place}: set KVAGENT_CONTROL_PLANE_URL to it")
    if status < 400 or (status == 404 and refusal is None):
        raise Unreachable("protocol", f"answered {status}: is this address a control plane?")
    raise Refused(status, refusal, detail or f"answered {status}")


def _problem(answer: bytes) -> tuple[Refusal | None, str]:
    """Return the refusal and the words of a problem body, as far as it is one."""
    try:
        body = json.loads(answer)
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(body, dict):
        return None, ""
    word = str(body.get("type", "")).replace(":", "/").rpartition("/")[2]
    text = str(body.get("detail") or body.get("title") or "")
    known = Refusal(word) if word in set(Refusal) else None
    return known, " ".join(text.split())[:MAX_DETAIL_CHARS]


def _retry_after_s(response: aiohttp.ClientResponse) -> float | None:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 6 else None


def _literal_loopback(host: str) -> bool:
    """Tell whether `host` is loopback by its spelling; what a name resolves to now says nothing about later."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def wait_or_stop(stop: asyncio.Event, delay_s: float) -> bool:
    """Wait `delay_s`, or less when `stop` is set; tell whether it is."""
    try:
        async with asyncio.timeout(delay_s):
            await stop.wait()
    except TimeoutError:
        return False
    return True
