"""The control plane's side of the agent's management API: pushes a desired policy. Every call ends within seconds.

The agent's TLS certificate is checked against the system's certificate authorities; OpenSSL's variables
`SSL_CERT_FILE` and `SSL_CERT_DIR` name others. No proxy is used and no redirect is followed.
"""

import json
import ssl
from typing import Any

import httpx
from pydantic import ValidationError

from agent.protocol import MAX_BODY_BYTES, ApplyReply
from fabric.agents.models import Agent
from fabric.agents.services import desired_envelope

TIMEOUT_S = 5.0
DESIRED_PATH = "/manage/v1/desired"


class AgentError(Exception):
    """A push without an answer of the agent to the policy itself. `code` is for machines, the text for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class AgentUnreachable(AgentError):
    """Nothing usable came back: `no-address`, `connect-failed`, `tls-failed`, `timeout`, `broken-answer`,
    `server-error`.
    """


class AgentRefused(AgentError):
    """It answered, but did not take the push for one: `not-believed` (signature, audience), `not-understood` (any
    other 4xx).
    """


def push_desired(agent: Agent) -> ApplyReply:
    """Send the agent what its `desired_*` columns say; return what it did with it (applied, stale or refused).

    Raises:
        AgentUnreachable: no connection, no answer in time, or none that can be understood.
        AgentRefused: the agent did not believe or understand the envelope.
    """
    envelope = desired_envelope(agent)
    status, body = _put(agent.manage_url.rstrip("/") + DESIRED_PATH, envelope.model_dump_json().encode())
    if status in (200, 409, 422):
        reply = _reply_in(body)
        if reply is not None:
            return reply
        raise AgentUnreachable("broken-answer", f"the agent answered {status} without saying what it runs")
    detail = _detail_in(body)
    if status == 403:
        raise AgentRefused("not-believed", f"the agent does not believe us: {detail or 'it gave no reason'}")
    if 400 <= status < 500:
        raise AgentRefused("not-understood", f"the agent answered {status}: {detail or 'it gave no reason'}")
    raise AgentUnreachable("server-error", f"the agent answered {status}")


def _put(url: str, content: bytes) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json", "Accept": "application/json, application/problem+json"}
    try:
        with (
            httpx.Client(
                timeout=TIMEOUT_S, verify=_tls_context(url), trust_env=False, follow_redirects=False
            ) as client,
            client.stream("PUT", url, content=content, headers=headers) as response,
        ):
            return response.status_code, _limited_body(response)
    except httpx.InvalidURL as error:
        raise AgentUnreachable("no-address", f"{url[:100]!r} is not an address") from error
    except httpx.TimeoutException as error:
        raise AgentUnreachable("timeout", f"no answer within {TIMEOUT_S:.0f} s") from error
    except httpx.ConnectError as error:
        code = "tls-failed" if _is_tls(error) else "connect-failed"
        raise AgentUnreachable(code, f"no connection to {url}: {error}") from error
    except httpx.HTTPError as error:
        raise AgentUnreachable("broken-answer", f"the connection to {url} broke: {type(error).__name__}") from error


def _tls_context(url: str) -> ssl.SSLContext | bool:
    """Building a context reads every certificate authority: leave it where no TLS is spoken."""
    return ssl.create_default_context() if url.startswith("https://") else True


def _limited_body(response: httpx.Response) -> bytes:
    parts, size = [], 0
    for part in response.iter_bytes():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise AgentUnreachable("broken-answer", f"the answer is larger than {MAX_BODY_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _reply_in(body: bytes) -> ApplyReply | None:
    """Return the `ApplyReply` in an answer; the other members of a problem body are left aside."""
    document = _object_in(body)
    try:
        return ApplyReply.model_validate({name: document[name] for name in ApplyReply.model_fields if name in document})
    except ValidationError:
        return None


def _detail_in(body: bytes) -> str:
    detail = _object_in(body).get("detail")
    return detail[:500] if isinstance(detail, str) else ""


def _object_in(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _is_tls(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
