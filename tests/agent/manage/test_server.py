"""The door: reads need a credential, probes say a word, what is wrong is a problem body, nobody can hold it open."""

import asyncio
import json
import socket
import ssl
import subprocess
import time
from pathlib import Path

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.config import ConfigError
from agent.manage import listener
from agent.manage.server import OPEN_PATHS
from agent.protocol import Envelope, Grant, HostInventory, Status
from tests.agent.manage.conftest import Enrolled, Manage, Runtimes, managed
from tests.agent.manage.control_plane import ControlPlane

READS = ("/metrics", "/manage/v1/status", "/manage/v1/inventory")


def _port(manage: Manage) -> int:
    return int(manage.url.rpartition(":")[2])


async def _raw(manage: Manage, data: bytes) -> bytes:
    """Send bytes and return everything that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", _port(manage))
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


async def test_reads_open_with_a_grant_and_with_the_local_token(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        for token in (control_plane.grant(), manage.metrics_token):
            code, body = await manage.get("/manage/v1/status", token)
            assert (code, Status.model_validate_json(body).agent_id) == (200, control_plane.member().agent_id)
            code, body = await manage.get("/manage/v1/inventory", token)
            assert (code, bool(HostInventory.model_validate_json(body).network_devices)) == (200, True)
            code, body = await manage.get("/metrics", token)
            assert (code, "kvfabric_agent_info" in body) == (200, True)


async def test_reads_are_closed_to_every_other_token(enrolled: Enrolled, control_plane: ControlPlane) -> None:
    async with enrolled() as manage:
        identity = manage.identity
        assert identity
        grant, other = control_plane.grant(), ControlPlane()
        other.members = control_plane.members
        now_s = time.time()
        foreign_key = Envelope.seal(
            Grant(aud=identity.agent_id, iat_s=now_s, exp_s=now_s + 60), Ed25519PrivateKey.generate(), "cp-1"
        ).bearer()
        tokens = {
            "empty": "",
            "grant cut": grant[:-5],
            "grant with a tail": grant + "A",
            "grant twice": f"{grant} {grant}",
            "grant in capitals": grant.upper(),
            "another control plane": other.grant(),
            "known kid, another key": foreign_key,
            "another agent": control_plane.grant(aud="someone-else"),
            "no agent": control_plane.grant(aud=""),
            "expired": control_plane.grant(iat_s=now_s - 9000, exp_s=now_s - 900),
            "not yet valid": control_plane.grant(iat_s=now_s + 900, exp_s=now_s + 9000),
            "policy as grant": control_plane.seal(1).bearer(),
            "our own access token": identity.access_token,
            "metrics token cut": manage.metrics_token[:-1],
            "metrics token longer": manage.metrics_token + "x",
            "not ASCII": "kvg1.é",
            "huge": "kvg1." + "A" * 6000,
            "nothing but the prefix": "kvg1.",
        }
        for name, token in tokens.items():
            for path in READS:
                headers = {"Authorization": f"Bearer {token}"}
                async with manage.session.get(manage.url + path, headers=headers) as response:
                    assert response.status == 401, name
                    assert response.content_type == "application/problem+json"
                    assert response.headers["WWW-Authenticate"].startswith("Bearer")
                    body = await response.text()
                    assert manage.metrics_token not in body
                    assert identity.agent_id not in body or "meant for" in body


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Authorization: Basic a3ZhOnNlY3JldA==\r\n",
        b"Authorization: Bearer\r\n",
        b"Authorization: TOKEN\r\n",
        b"Authorization: Bearer TOKEN\r\nAuthorization: Bearer TOKEN\r\n",
        b"Authorization: Bearer  TOKEN\r\n",
        b"Authorization: Bearer \xff\xfe\r\n",
        b"X-Authorization: Bearer TOKEN\r\n",
        b"Cookie: token=TOKEN\r\n",
    ],
)
async def test_reads_need_exactly_one_bearer_header(make_runtime: Runtimes, line: bytes) -> None:
    async with managed(make_runtime()) as manage:
        line = line.replace(b"TOKEN", manage.metrics_token.encode())
        answer = await _raw(manage, b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + line + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 401")


async def test_token_in_the_address_opens_nothing(make_runtime: Runtimes) -> None:
    async with managed(make_runtime()) as manage:
        assert (await manage.get(f"/metrics?token={manage.metrics_token}"))[0] == 401


async def test_probes_are_open_and_say_nothing_else(make_runtime: Runtimes) -> None:
    runtime = make_runtime()
    async with managed(runtime) as manage:
        assert (await manage.get("/livez")) == (200, "ok\n")
        assert (await manage.get("/readyz")) == (503, "not ok starting enrolled=false\n")
        runtime.set_ready()
        assert (await manage.get("/readyz")) == (200, "ok enrolled=false\n")
        runtime.set_ready("draining")
        assert (await manage.get("/readyz")) == (503, "not ok draining enrolled=false\n")


async def test_only_the_probes_are_open(make_runtime: Runtimes) -> None:
    assert {"/livez", "/readyz"} == OPEN_PATHS
    async with managed(make_runtime()) as manage:
        for path in READS:
            assert (await manage.get(path))[0] == 401
        assert (await manage.put(b""))[0] == 400


async def test_unknown_paths_and_methods_are_problems(make_runtime: Runtimes) -> None:
    async with managed(make_runtime()) as manage:
        for method, path, code in (
            ("GET", "/", 404),
            ("GET", "/manage/v1/", 404),
            ("GET", "/manage/v1/desired", 405),
            ("POST", "/manage/v1/desired", 405),
            ("DELETE", "/metrics", 405),
            ("PUT", "/livez", 405),
            ("GET", "/metrics/../manage/v1/status", 401),
            ("GET", "/%2e%2e/etc/passwd", 404),
            ("OPTIONS", "/metrics", 405),
            ("TRACE", "/livez", 405),
        ):
            async with manage.session.request(method, manage.url + path) as response:
                assert response.status == code, (method, path)
                assert response.content_type == "application/problem+json"
                assert (await response.json(content_type=None))["status"] == code
                assert ("Allow" in response.headers) == (code == 405)


async def test_answers_carry_hardening_headers_and_no_version(make_runtime: Runtimes) -> None:
    async with managed(make_runtime()) as manage:
        for path in ("/livez", "/nowhere", "/metrics"):
            async with manage.session.get(manage.url + path) as response:
                assert response.headers["Server"] == "kvagent"
                assert response.headers["Cache-Control"] == "no-store"
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",  # a TLS hello
        b"*1\r\n$4\r\nPING\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(200)) + b"\r\n",
        b"PUT /manage/v1/desired HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"PUT /manage/v1/desired HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n",
        b"PUT /manage/v1/desired HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_a_problem_and_the_connection_ends(
    make_runtime: Runtimes, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with managed(make_runtime()) as manage:
        answer = await _raw(manage, data)
        assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
        assert b"application/problem+json" in answer
        assert b"aiohttp" not in answer
        assert (await manage.get("/livez")) == (200, "ok\n")
    assert "Traceback" not in caplog.text


async def test_connection_that_sends_nothing_or_dribbles_is_closed(
    make_runtime: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "IDLE_TIMEOUT_S", 0.4)
    async with managed(make_runtime()) as manage:
        silent, silent_writer = await asyncio.open_connection("127.0.0.1", _port(manage))
        slow, slow_writer = await asyncio.open_connection("127.0.0.1", _port(manage))
        started_s = time.monotonic()

        async def dribble() -> None:
            for byte in b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 400:
                slow_writer.write(bytes([byte]))
                await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        assert await asyncio.wait_for(silent.read(), 5) == b""
        assert await asyncio.wait_for(slow.read(), 5) == b""
        assert time.monotonic() - started_s < 2.5
        dribbling.cancel()
        silent_writer.close()
        slow_writer.close()


async def test_connections_are_limited_and_come_back(make_runtime: Runtimes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 5)
    async with managed(make_runtime()) as manage:
        held = [await asyncio.open_connection("127.0.0.1", _port(manage)) for _ in range(5)]
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", _port(manage))
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        for _, one in held:
            one.close()
        await asyncio.sleep(0.05)
        assert (await manage.get("/livez"))[0] == 200


async def test_stop_ends_soon_with_connections_open(make_runtime: Runtimes) -> None:
    async with managed(make_runtime()) as manage:
        _, writer = await asyncio.open_connection("127.0.0.1", _port(manage))
        await manage.get("/livez")
        port, started_s = _port(manage), time.monotonic()
    assert time.monotonic() - started_s < 3
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3"])
async def test_door_beyond_loopback_without_tls_does_not_open(make_runtime: Runtimes, host: str) -> None:
    with pytest.raises(ConfigError, match="KVAGENT_TLS_CERT_FILE"):
        async with managed(make_runtime(manage_host=host)):
            pass


async def test_taken_port_is_a_setting_error(make_runtime: Runtimes) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="KVAGENT_MANAGE_PORT"):
            async with managed(make_runtime(manage_port=taken.getsockname()[1])):
                pass


async def test_unusable_certificate_is_a_setting_error(make_runtime: Runtimes, tmp_path: Path) -> None:
    (tmp_path / "cert").write_text("no certificate")
    runtime = make_runtime(tls_cert_file=tmp_path / "cert", tls_key_file=tmp_path / "cert")
    with pytest.raises(ConfigError, match="KVAGENT_TLS_CERT_FILE"):
        async with managed(runtime):
            pass


async def test_plain_http_control_plane_elsewhere_stops_the_start(make_runtime: Runtimes) -> None:
    with pytest.raises(ConfigError, match="https"):
        async with managed(make_runtime(control_plane_url="http://fabric.example:8400")):
            pass


async def test_door_speaks_tls_where_there_is_a_certificate(make_runtime: Runtimes, tmp_path: Path) -> None:
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-keyout", str(key), "-out", str(cert), "-subj", "/CN=a", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    async with managed(make_runtime(tls_cert_file=cert, tls_key_file=key)) as manage:
        address = f"https://127.0.0.1:{_port(manage)}"
        tls = ssl.create_default_context(cafile=str(cert))
        async with manage.session.get(address + "/livez", ssl=tls) as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientSSLError):
            await manage.session.get(address + "/livez")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with pytest.deprecated_call():
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await manage.session.get(address + "/livez", ssl=old)


async def test_failing_handler_says_nothing_of_the_inside(
    make_runtime: Runtimes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = make_runtime()

    def broken(*_: object) -> None:
        raise RuntimeError("the secret cause")

    async with managed(runtime) as manage:
        monkeypatch.setattr(runtime, "status", broken)
        code, body = await manage.get("/manage/v1/status", manage.metrics_token)
        assert (code, json.loads(body)["type"]) == (500, "urn:kvfabric:problem:internal")
        assert "secret cause" not in body
        assert "secret cause" in caplog.text
        assert (await manage.get("/livez"))[0] == 200
