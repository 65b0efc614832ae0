"""Joining: through the door or not at all, in words an operator can act on, and never at the data's expense."""

import asyncio
import json
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from agent.config import ConfigError
from agent.manage import enroll
from agent.manage.client import ControlPlaneClient, Unreachable, check_control_plane_url
from agent.manage.enroll import for_others, parse_join_token
from agent.protocol import ChallengeReply, RejoinChallengeRequest
from tests.agent.manage.conftest import Enrolled, Runtimes, managed
from tests.agent.manage.control_plane import ControlPlane, eventually, policy, problem, serving


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the token file often, so that tests are short."""
    monkeypatch.setattr(enroll, "TOKEN_POLL_S", 0.05)


async def test_enrolment_pins_the_key_deletes_the_token_and_is_said(
    enrolled: Enrolled, control_plane: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with enrolled() as manage:
        identity, member = manage.identity, control_plane.member()
        assert identity
        assert identity.agent_id == member.agent_id
        assert identity.access_token in member.tokens
        assert set(identity.control_plane_keys) == {"cp-1"}
        assert member.request.manage_url == manage.url
        assert member.request.capabilities.dram_limit_bytes == 8 << 20
        assert member.request.hostname
        assert not (tmp_path / "join-token").exists()
        assert (await manage.get("/readyz")) == (200, "ok\n")
    assert f"enrolled as agent {member.agent_id}" in caplog.text
    assert "kvj1_" not in caplog.text
    assert "kva1_" not in caplog.text


async def test_restart_uses_the_identity_and_does_not_enrol_again(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled():
        first = control_plane.member()
    calls = len(control_plane.calls)
    async with enrolled():
        assert control_plane.member() is first
    assert set(control_plane.calls[calls:]) == {"/agent/v1/heartbeat"}
    boots = {beat.status.boot_id for beat in control_plane.beats}
    assert len(boots) == 2


async def test_agent_without_control_plane_serves_and_says_that_it_is_not_enrolled(make_runtime: Runtimes) -> None:
    runtime = make_runtime()
    async with managed(runtime) as manage:
        assert (await manage.get("/readyz")) == (503, "not ok starting enrolled=false\n")
        runtime.set_ready()
        assert (await manage.get("/readyz")) == (200, "ok enrolled=false\n")
        assert (await manage.status())["agent_id"] == ""


async def test_agent_serves_before_it_is_enrolled_and_enrols_when_a_token_appears(
    make_runtime: Runtimes, control_plane: ControlPlane, control_plane_port: int, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    runtime = make_runtime(control_plane_url=f"http://127.0.0.1:{control_plane_port}", join_token_file=path)
    runtime.set_ready()
    async with managed(runtime) as manage:
        await asyncio.sleep(0.2)
        assert control_plane.calls == []
        assert (await manage.get("/readyz")) == (200, "ok enrolled=false\n")
        path.write_text(control_plane.new_token())
        await eventually(lambda: control_plane.beats, "a heartbeat")
        assert (await manage.get("/readyz")) == (200, "ok\n")


async def test_join_token_can_come_from_the_environment(
    make_runtime: Runtimes, control_plane: ControlPlane, control_plane_port: int
) -> None:
    url = f"http://127.0.0.1:{control_plane_port}"
    async with managed(make_runtime(control_plane_url=url, join_token=control_plane.new_token())):
        await eventually(lambda: control_plane.beats, "a heartbeat")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("token-expired", "has expired: make a new one"),
        ("token-used", "was used before: make a new one"),
        ("token-revoked", "was revoked: make a new one"),
        ("token-scope", "for another host"),
        ("agent-denied", "under another key"),
    ],
)
async def test_refused_token_is_explained_sent_once_and_kept(
    make_runtime: Runtimes,
    control_plane: ControlPlane,
    control_plane_port: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    state: str,
    words: str,
) -> None:
    path = tmp_path / "token"
    path.write_text(control_plane.new_token(state))
    runtime = make_runtime(control_plane_url=f"http://127.0.0.1:{control_plane_port}", join_token_file=path)
    async with managed(runtime) as manage:
        await eventually(lambda: words in caplog.text, "the explanation")
        await asyncio.sleep(0.3)
        assert control_plane.calls == ["/agent/v1/enroll/challenge", "/agent/v1/enroll"]
        assert path.exists()
        condition = await manage.condition("identity_refused")
        assert (condition["status"], condition["reason"]) == ("true", state)
        assert manage.identity is None
        path.write_text(control_plane.new_token())  # the operator puts a good one in its place
        await eventually(lambda: control_plane.beats, "a heartbeat")
        assert (await manage.condition("identity_refused"))["status"] == "false"
    assert caplog.text.count(words) == 1


async def test_unknown_token_is_explained(
    make_runtime: Runtimes, control_plane_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{control_plane_port}"
    async with managed(make_runtime(control_plane_url=url, join_token="kvj1_abcdefgh." + "x" * 43)):
        await eventually(lambda: "does not know this join token" in caplog.text, "the explanation")
    assert "xxxx" not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "", "kvj1_", "kvj1_abcdefgh", "kvj1_abcdefgh.short", "kvj1_ABCDEFGH." + "x" * 43, "kvj1_abcdefgh." + "x" * 101,
        "kvj2_abcdefgh." + "x" * 43, "kvj1_abcdefgh." + "é" * 43, "kvj1_abc defg." + "x" * 43,
        "kvj1_abcdefgh." + "x" * 20 + "\n" + "y" * 20,
    ],
)  # fmt: skip
def test_text_that_is_no_join_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="kvj1_<8 letters") as caught:
        parse_join_token(text)
    assert "xxxx" not in str(caught.value)


def test_join_token_may_have_white_space_around_it() -> None:
    token = parse_join_token(f"  kvj1_ab12cd34.{'s' * 43}\r\n")
    assert (token.token_id, token.secret) == ("ab12cd34", "s" * 43)
    assert "sss" not in repr(token)


async def test_token_file_with_garbage_is_named(
    make_runtime: Runtimes, control_plane_port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"\xff\xfe" + b"password1" * 2000)
    runtime = make_runtime(control_plane_url=f"http://127.0.0.1:{control_plane_port}", join_token_file=path)
    async with managed(runtime):
        await eventually(lambda: "is not a join token" in caplog.text, "the explanation")
    assert "password1" not in caplog.text


async def test_control_plane_that_comes_late_is_waited_for(
    make_runtime: Runtimes, control_plane: ControlPlane, unused_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{unused_port}"
    runtime = make_runtime(control_plane_url=url, join_token=control_plane.new_token())
    async with managed(runtime) as manage:
        await eventually(lambda: "the control plane cannot be reached" in caplog.text, "the warning")
        assert (await manage.condition("control_plane_unreachable"))["reason"] == "connect"
        async with serving(control_plane, unused_port):
            await eventually(lambda: control_plane.beats, "a heartbeat")
            assert (await manage.condition("control_plane_unreachable"))["status"] == "false"


@pytest.fixture
def unused_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_nonce_that_was_lost_is_asked_for_again(
    make_runtime: Runtimes, control_plane: ControlPlane, control_plane_port: int
) -> None:
    seen: list[str] = []

    async def once(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        del control_plane.refuse["/agent/v1/enroll"]
        return problem(403, "challenge", "the nonce is older than 60 s")

    control_plane.refuse["/agent/v1/enroll"] = once
    url = f"http://127.0.0.1:{control_plane_port}"
    async with managed(make_runtime(control_plane_url=url, join_token=control_plane.new_token())):
        await eventually(lambda: control_plane.beats, "a heartbeat")
    assert control_plane.calls.count("/agent/v1/enroll/challenge") == 2


async def test_identity_is_not_used_until_it_is_stored(
    make_runtime: Runtimes,
    control_plane: ControlPlane,
    control_plane_port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enroll, "STORE_RETRY_S", 0.05)
    path = tmp_path / "token"
    path.write_text(control_plane.new_token())
    runtime = make_runtime(control_plane_url=f"http://127.0.0.1:{control_plane_port}", join_token_file=path)
    (runtime.config.state_dir / "identity.json.new").mkdir()  # nothing can be written there
    async with managed(runtime) as manage:
        await eventually(lambda: "/agent/v1/enroll" in control_plane.calls, "the enrolment")
        await asyncio.sleep(0.2)
        assert control_plane.beats == []
        assert path.exists()
        assert (await manage.get("/livez")) == (200, "ok\n")
        (runtime.config.state_dir / "identity.json.new").rmdir()
        await eventually(lambda: control_plane.beats, "a heartbeat once the disk takes it")
        assert not path.exists()
    assert control_plane.calls.count("/agent/v1/enroll") == 1


async def test_new_agent_id_counts_generations_anew(
    enrolled: Enrolled, control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with enrolled() as manage:
        document = policy(0.1)
        code, _ = await manage.put(control_plane.seal(57, document).model_dump_json())
        assert (code, manage.runtime.observed_generation) == (200, 57)
    control_plane.members.clear()  # a control plane that begins anew
    (tmp_path / "join-token").write_text(control_plane.new_token())
    async with enrolled() as manage:
        assert manage.runtime.observed_generation == 0
        assert manage.runtime.policy == document
        code, _ = await manage.put(control_plane.seal(1, policy(0.2)).model_dump_json())
        assert (code, manage.runtime.observed_generation) == (200, 1)


async def test_old_identity_with_a_leftover_token_file_stays(
    enrolled: Enrolled, control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with enrolled():
        agent_id = control_plane.member().agent_id
    (tmp_path / "join-token").write_text(control_plane.new_token())
    async with enrolled():
        assert control_plane.member().agent_id == agent_id


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://fabric.example:8400", "only spoken to over https"),
        ("http://10.0.0.1:8400", "only spoken to over https"),
        ("http://127.0.0.1.example.com", "only spoken to over https"),
        ("ftp://127.0.0.1", "must be https"),
        ("fabric:8400", "must be https"),
        ("", "must be https"),
        ("https://user:secret@fabric", "no credential"),
        ("https://fabric/?a=1", "no credential"),
        ("http://[::1", "KVAGENT_CONTROL_PLANE_URL"),
    ],
)
def test_control_plane_address_that_is_unsafe_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        check_control_plane_url(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("http://127.0.0.1:8400/", "http://127.0.0.1:8400/"),
        ("http://localhost:8400", "http://localhost:8400/"),
        ("http://[::1]:8400", "http://[::1]:8400/"),
        ("https://fabric.example/base/", "https://fabric.example/base"),
    ],
)
def test_control_plane_address_is_taken(text: str, kept: str) -> None:
    assert check_control_plane_url(text) == URL(kept)
    assert str(check_control_plane_url(text) / "agent/v1/enroll").count("//") == 1


def test_every_address_is_advertised_as_this_hosts_name() -> None:
    assert for_others("https://0.0.0.0:6401") == f"https://{socket.getfqdn()}:6401"
    assert for_others("rediss://[::]:6400") == f"rediss://{socket.getfqdn()}:6400"
    assert for_others("http://127.0.0.1:6401") == "http://127.0.0.1:6401"


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for 127.0.0.1."""
    cert, key = folder / "cp.pem", folder / "cp.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=cp"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=30)
    return cert, key


async def test_tls_is_verified_against_the_given_authority_only(tmp_path: Path) -> None:
    cert, key = _certificate(tmp_path)
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_tls.load_cert_chain(cert, key)
    control_plane = ControlPlane()
    runner = web.AppRunner(control_plane.app(), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_tls).start()
    url = check_control_plane_url(f"https://127.0.0.1:{runner.addresses[0][1]}")
    ask = ("/agent/v1/rejoin/challenge", RejoinChallengeRequest(agent_id="a"), ChallengeReply)
    try:
        async with ControlPlaneClient(url, cert) as client:
            assert (await client.post(*ask)).nonce
        async with ControlPlaneClient(url) as client:
            with pytest.raises(Unreachable) as caught:
                await client.post(*ask)
            assert caught.value.reason == "tls"
        async with ControlPlaneClient(url.with_host("localhost"), cert) as client:
            with pytest.raises(Unreachable) as caught:
                await client.post(*ask)
            assert caught.value.reason in {"tls", "connect"}  # the certificate is for the address, not the name
    finally:
        await runner.cleanup()


def test_authority_file_that_is_missing_is_a_setting_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KVAGENT_CONTROL_PLANE_CA_FILE"):
        ControlPlaneClient(URL("https://fabric"), tmp_path / "absent.pem")


async def _answers(answer: web.Response) -> Unreachable | None:
    async def handler(_: web.Request) -> web.StreamResponse:
        return answer

    control_plane = ControlPlane()
    control_plane.refuse["*"] = handler
    async with serving(control_plane) as port, ControlPlaneClient(URL(f"http://127.0.0.1:{port}")) as client:
        try:
            await client.post("/x", RejoinChallengeRequest(agent_id="a"), ChallengeReply)
        except Unreachable as error:
            return error
    return None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (web.Response(text="<html>hello</html>", content_type="text/html"), "protocol"),
        (web.Response(text='{"nonce": "short"}'), "protocol"),
        (web.Response(text="null"), "protocol"),
        (web.Response(text="[" * 100_000), "protocol"),
        (web.Response(body=b"\xff\xfe"), "protocol"),
        (web.Response(text='{"a":"' + "x" * (1 << 20) + '"}'), "protocol"),
        (web.Response(status=204), "protocol"),
        (web.Response(status=302, headers={"Location": "https://elsewhere.example/"}), "redirect"),
        (web.Response(status=404, text="nginx"), "protocol"),
        (web.Response(status=500, text="[" * 100_000), "http-500"),
        (web.Response(status=503, headers={"Retry-After": "7"}), "http-503"),
        (web.Response(status=429, headers={"Retry-After": "9" * 50}), "http-429"),
    ],
)
async def test_answer_that_cannot_be_used_is_unreachable_with_a_reason(answer: web.Response, reason: str) -> None:
    error = await _answers(answer)
    assert error is not None
    assert error.reason == reason
    assert error.retry_after_s == (7.0 if reason == "http-503" else None)


async def test_refusal_text_of_the_control_plane_cannot_break_the_log(
    make_runtime: Runtimes, control_plane: ControlPlane, control_plane_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        body = {"type": "x", "detail": "no\nERROR forged line\r\n" + "y" * 5000}
        return web.Response(status=403, text=json.dumps(body), content_type="application/problem+json")

    control_plane.refuse["*"] = handler
    url = f"http://127.0.0.1:{control_plane_port}"
    async with managed(make_runtime(control_plane_url=url, join_token=control_plane.new_token())):
        await eventually(lambda: "enrolment refused (http-403)" in caplog.text, "the refusal")
    record = next(record for record in caplog.records if "enrolment refused" in record.getMessage())
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 500
