"""Pushing a policy over real HTTP to something that behaves as an agent may."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent.protocol import ApplyState, Envelope
from fabric.agents import client
from fabric.agents.client import AgentRefused, AgentUnreachable, push_desired
from fabric.agents.models import Agent
from fabric.agents.services import control_plane_keys, set_desired
from fabric.core.actor import SYSTEM
from kvcache.policy import default_policy
from tests.support.servers import free_port

pytestmark = pytest.mark.django_db
POLICY = default_policy()


class FakeAgent:
    """An HTTP server that answers every PUT as it is told, and keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any, bytes]] = []
        self.answer: Callable[[Any], None] = lambda handler: reply(handler, 500, {})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append((self.command, self.path, dict(self.headers), body))
                outer.answer(self)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


def reply(handler: Any, status: int, body: Any, content_type: str = "application/json", **headers: str) -> None:
    """Answer with a JSON body, or with bytes as they stand."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", content_type)
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


@pytest.fixture
def fake() -> Iterator[FakeAgent]:
    """Return a running fake agent."""
    fake = FakeAgent()
    thread = threading.Thread(target=fake.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


def agent_at(url: str) -> Agent:
    """Return an agent with a policy to push, at this address."""
    row = Agent.objects.create(
        name="a", hostname="a", agent_version="1", public_key="k", manage_url=url, data_url="x", state="active"
    )
    set_desired(actor=SYSTEM, agent_ids=[row.pk], document=POLICY.as_dict(), digest=POLICY.digest())
    row.refresh_from_db()
    return row


APPLIED = {"state": "applied", "observed_generation": 1, "applied_digest": POLICY.digest(), "problems": []}


def test_push_is_a_signed_envelope_and_nothing_else(fake: FakeAgent) -> None:
    fake.answer = lambda handler: reply(handler, 200, APPLIED)
    row = agent_at(fake.url)
    answer = push_desired(row)
    assert (answer.state, answer.observed_generation, answer.applied_digest) == (ApplyState.APPLIED, 1, POLICY.digest())
    ((command, path, headers, body),) = fake.requests
    assert (command, path, headers["Content-Type"]) == ("PUT", "/manage/v1/desired", "application/json")
    assert "Authorization" not in headers
    opened = Envelope.model_validate_json(body).open_desired(
        keys=control_plane_keys(), audience=str(row.pk), now_s=time.time()
    )
    assert (opened.generation, opened.document) == (1, POLICY.as_dict())


@pytest.mark.parametrize(("status", "state"), [(409, "stale"), (422, "refused")])
def test_stale_and_refused_are_answers_and_not_errors(fake: FakeAgent, status: int, state: str) -> None:
    problem = {"type": "urn:x", "title": "t", "status": status, "detail": "d", "state": state, "observed_generation": 7}
    problem["problems"] = [{"field": "tiers.flash", "problem": "no flash here", "remedy": "0 bytes"}]
    fake.answer = lambda handler: reply(handler, status, problem, "application/problem+json")
    answer = push_desired(agent_at(fake.url))
    assert (answer.state, answer.observed_generation) == (state, 7)
    assert answer.problems[0].field == "tiers.flash"


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (403, AgentRefused, "not-believed"),
        (400, AgentRefused, "not-understood"),
        (401, AgentRefused, "not-understood"),
        (404, AgentRefused, "not-understood"),
        (413, AgentRefused, "not-understood"),
        (500, AgentUnreachable, "server-error"),
        (503, AgentUnreachable, "server-error"),
        (204, AgentUnreachable, "server-error"),
    ],
)
def test_other_answers_are_errors_with_a_code(fake: FakeAgent, status: int, error: type, code: str) -> None:
    fake.answer = lambda handler: reply(handler, status, {"detail": "wrong audience"} if status != 204 else b"")
    with pytest.raises(error) as raised:
        push_desired(agent_at(fake.url))
    assert raised.value.code == code
    if 400 <= status < 500:
        assert "wrong audience" in str(raised.value)


@pytest.mark.parametrize("status", [200, 409, 422])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"state": "done"}', b'{"state": "applied"}']
)
def test_answer_that_cannot_be_understood_is_unreachable(fake: FakeAgent, status: int, body: bytes) -> None:
    fake.answer = lambda handler: reply(handler, status, body)
    with pytest.raises(AgentUnreachable) as raised:
        push_desired(agent_at(fake.url))
    assert raised.value.code == "broken-answer"


def test_redirect_is_not_followed(fake: FakeAgent) -> None:
    fake.answer = lambda handler: reply(handler, 307, b"", Location=f"{fake.url}/elsewhere")
    with pytest.raises(AgentUnreachable):
        push_desired(agent_at(fake.url))
    assert len(fake.requests) == 1


def test_proxy_of_the_environment_is_not_used(fake: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.answer = lambda handler: reply(handler, 200, APPLIED)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert push_desired(agent_at(fake.url)).observed_generation == 1


def test_huge_answer_is_cut_off(fake: FakeAgent) -> None:
    fake.answer = lambda handler: reply(handler, 200, b"x" * (3 << 20))
    with pytest.raises(AgentUnreachable, match="larger"):
        push_desired(agent_at(fake.url))


def test_nobody_there_is_told_from_nobody_in_time(fake: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    row = agent_at(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AgentUnreachable) as raised:
        push_desired(row)
    assert raised.value.code == "connect-failed"
    monkeypatch.setattr(client, "TIMEOUT_S", 0.2)
    fake.answer = lambda handler: time.sleep(1)
    row.manage_url = fake.url
    started = time.monotonic()
    with pytest.raises(AgentUnreachable) as raised:
        push_desired(row)
    assert raised.value.code == "timeout"
    assert time.monotonic() - started < 0.9


def test_connection_cut_in_the_middle_is_a_broken_answer(fake: FakeAgent) -> None:
    def cut(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.wfile.flush()
        handler.connection.close()

    fake.answer = cut
    with pytest.raises(AgentUnreachable) as raised:
        push_desired(agent_at(fake.url))
    assert raised.value.code == "broken-answer"


def test_plain_http_behind_an_https_address_is_a_tls_failure(fake: FakeAgent) -> None:
    with pytest.raises(AgentUnreachable) as raised:
        push_desired(agent_at(fake.url.replace("http://", "https://")))
    assert raised.value.code == "tls-failed"


@pytest.mark.parametrize("url", ["", "not an address", "http://", "ftp://127.0.0.1", "http://[::1"])
def test_address_that_is_none_is_unreachable(url: str) -> None:
    with pytest.raises(AgentUnreachable):
        push_desired(agent_at(url))
