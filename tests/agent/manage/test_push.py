"""The one path that changes something: only a right signature for this agent and a new generation get through."""

import asyncio
import base64
import gzip
import json
import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.manage import server
from agent.protocol import ApplyReply, Desired, Envelope
from tests.agent.manage.conftest import Enrolled, Manage, Runtimes, managed
from tests.agent.manage.control_plane import ControlPlane, policy


def _sealed_bytes(control_plane: ControlPlane, payload: bytes) -> str:
    """Return an envelope with a right signature over bytes that may be no message at all."""
    encode = lambda data: base64.b64encode(data).decode()  # noqa: E731
    body = {"kid": control_plane.kid, "payload": encode(payload), "signature": encode(control_plane.key.sign(payload))}
    return json.dumps(body)


def _swap(envelope: Envelope, **changes: Any) -> str:
    return envelope.model_copy(update=changes).model_dump_json()


def _flip(text: str, index: int = 10) -> str:
    return text[:index] + ("A" if text[index] != "A" else "B") + text[index + 1 :]


async def _assert_untouched(manage: Manage, generation: int = 0) -> None:
    status = await manage.status()
    assert status["observed_generation"] == generation
    assert manage.runtime.snapshot().policy_applied == (1 if generation else 0)


async def test_push_comes_into_force_and_is_kept(enrolled: Enrolled, control_plane: ControlPlane) -> None:
    document = policy(0.125)
    async with enrolled() as manage:
        code, answer = await manage.put(control_plane.seal(4, document).model_dump_json())
        assert code == 200
        reply = ApplyReply.from_body(answer)
        assert (reply.state, reply.observed_generation, reply.applied_digest) == ("applied", 4, document.digest())
        dram = next(tier for tier in (await manage.status())["tiers"] if tier["tier"] == "dram")
        assert dram["capacity_bytes"] == (8 << 20) // 8
    async with enrolled() as manage:  # after a restart
        assert (manage.runtime.observed_generation, manage.runtime.policy) == (4, document)


async def test_equal_generation_is_acknowledged_and_not_applied_again(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        for _ in range(3):
            code, answer = await manage.put(control_plane.seal(4).model_dump_json())
            assert (code, answer["state"]) == (200, "applied")
        await _assert_untouched(manage, 4)


async def test_lower_generation_is_stale_with_what_is_in_force(enrolled: Enrolled, control_plane: ControlPlane) -> None:
    async with enrolled() as manage:
        await manage.put(control_plane.seal(4, policy(0.2)).model_dump_json())
        code, answer = await manage.put(control_plane.seal(3, policy(0.9)).model_dump_json())
        assert (code, answer["type"]) == (409, "urn:kvfabric:problem:stale")
        reply = ApplyReply.from_body(answer)
        assert (reply.state, reply.observed_generation) == ("stale", 4)
        assert reply.applied_digest == policy(0.2).digest()
        await _assert_untouched(manage, 4)


async def test_thousand_replayed_pushes_have_no_effect(enrolled: Enrolled, control_plane: ControlPlane) -> None:
    async with enrolled() as manage:
        recorded = [control_plane.seal(generation, policy(0.3)).model_dump_json() for generation in range(1, 11)]
        for body in recorded:
            assert (await manage.put(body))[0] == 200
        await manage.put(control_plane.seal(11, policy(0.4)).model_dump_json())
        for _ in range(25):
            codes = await asyncio.gather(*(manage.put(body) for body in recorded * 4))
            assert {code for code, _ in codes} == {409}
        assert manage.runtime.snapshot().policy_applied == 11
        assert manage.runtime.policy == policy(0.4)


async def test_same_generation_with_another_policy_is_refused(enrolled: Enrolled, control_plane: ControlPlane) -> None:
    async with enrolled() as manage:
        await manage.put(control_plane.seal(4, policy(0.2)).model_dump_json())
        code, answer = await manage.put(control_plane.seal(4, policy(0.9)).model_dump_json())
        assert (code, answer["problems"][0]["field"]) == (422, "generation")
        await _assert_untouched(manage, 4)


Forge = Callable[[ControlPlane], str]
FORGERIES: dict[str, Forge] = {
    "payload changed": lambda cp: _swap(cp.seal(1), payload=_flip(cp.seal(1).payload)),
    "signature changed": lambda cp: _swap(cp.seal(1), signature=_flip(cp.seal(1).signature)),
    "signature of another push": lambda cp: _swap(cp.seal(1), signature=cp.seal(2).signature),
    "signature of zeros": lambda cp: _swap(cp.seal(1), signature=base64.b64encode(bytes(64)).decode()),
    "signature that is no base64": lambda cp: _swap(cp.seal(1), signature="!" * 88),
    "payload that is no base64": lambda cp: _swap(cp.seal(1), payload="é" * 88),
    "payload cut short": lambda cp: _swap(cp.seal(1), payload=cp.seal(1).payload[:-8]),
    "empty payload": lambda cp: _swap(cp.seal(1), payload=""),
    "unknown key id": lambda cp: _swap(cp.seal(1), kid="cp-2"),
    "empty key id": lambda cp: _swap(cp.seal(1), kid=""),
    "known key id, another key": lambda cp: Envelope.seal(
        Desired.model_validate_json(base64.b64decode(cp.seal(1).payload)), Ed25519PrivateKey.generate(), cp.kid
    ).model_dump_json(),
    "another agent": lambda cp: cp.seal(1, aud="00000000-0000-0000-0000-000000000000").model_dump_json(),
    "no agent": lambda cp: cp.seal(1, aud="").model_dump_json(),
    "agent id in capitals": lambda cp: cp.seal(1, aud=next(iter(cp.members)).upper()).model_dump_json(),
    "expired": lambda cp: cp.seal(1, iat_s=time.time() - 9000, exp_s=time.time() - 900).model_dump_json(),
    "not yet valid": lambda cp: cp.seal(1, iat_s=time.time() + 900, exp_s=time.time() + 9000).model_dump_json(),
    "read grant": lambda cp: Envelope.from_bearer(cp.grant()).model_dump_json(),
    "signed bytes that are no JSON": lambda cp: _sealed_bytes(cp, b"\xff\xfe\x00"),
    "signed JSON that is no message": lambda cp: _sealed_bytes(cp, b'{"hello": "world"}'),
    "signed nesting bomb": lambda cp: _sealed_bytes(cp, b'{"document":' + b"[" * 100_000),
    "generation zero": lambda cp: _resigned(cp, generation=0),
    "generation negative": lambda cp: _resigned(cp, generation=-1),
    "generation not whole": lambda cp: _resigned(cp, generation=1.5),
    "generation a text": lambda cp: _resigned(cp, generation="９"),
    "time infinite": lambda cp: _resigned(cp, exp_s=float("inf")),
    "unknown field inside": lambda cp: _resigned(cp, surprise=1),
    "no digest": lambda cp: _resigned(cp, digest=None),
}


def _resigned(control_plane: ControlPlane, **changes: Any) -> str:
    """Return a push whose signed payload breaks the protocol: the control plane itself errs."""
    payload = json.loads(base64.b64decode(control_plane.seal(1).payload)) | changes
    return _sealed_bytes(control_plane, json.dumps(payload).encode())


async def test_no_forgery_is_believed(enrolled: Enrolled, control_plane: ControlPlane) -> None:
    async with enrolled() as manage:
        for name, forge in FORGERIES.items():
            code, answer = await manage.put(forge(control_plane))
            assert (code, answer["type"]) == (403, "urn:kvfabric:problem:not-believed"), name
            assert answer["detail"], name
        await _assert_untouched(manage)
        assert (await manage.condition("policy_refused"))["status"] == "unknown"
    assert len(FORGERIES) >= 24


MALFORMED: dict[str, tuple[bytes, dict[str, str], int]] = {
    "nothing": (b"", {}, 400),
    "no JSON": (b"generation=1", {}, 400),
    "not UTF-8": (b"\xff\xfe{}", {}, 400),
    "a list": (b"[]", {}, 400),
    "null": (b"null", {}, 400),
    "nesting bomb": (b"[" * 200_000, {}, 400),
    "fields missing": (b'{"kid": "cp-1"}', {}, 400),
    "field unknown": (json.dumps({"kid": "a", "payload": "", "signature": "A" * 88, "x": 1}).encode(), {}, 400),
    "types wrong": (b'{"kid": 1, "payload": [], "signature": null}', {}, 400),
    "signature short": (b'{"kid": "a", "payload": "", "signature": "AAAA"}', {}, 400),
    "too large": (b'{"kid": "' + b"x" * (1 << 20) + b'"}', {}, 413),
    "form": (b"{}", {"Content_Type": "application/x-www-form-urlencoded"}, 415),
    "plain text": (b"{}", {"Content_Type": "text/plain"}, 415),
    "problem body": (b"{}", {"Content_Type": "application/problem+json"}, 415),
    "compressed": (gzip.compress(b"{}"), {"Content_Encoding": "gzip"}, 415),
    "gzip bomb": (gzip.compress(b"0" * (64 << 20)), {"Content_Encoding": "gzip"}, 415),
}


async def test_no_malformed_body_is_taken_and_each_is_answered_with_a_problem(enrolled: Enrolled) -> None:
    async with enrolled() as manage:
        for name, (body, headers, expected) in MALFORMED.items():
            code, answer = await manage.put(body, **headers)
            assert (code, answer["status"]) == (expected, expected), name
            assert answer["type"].startswith("urn:kvfabric:problem:"), name
        await _assert_untouched(manage)


async def test_fields_at_fault_are_named(enrolled: Enrolled) -> None:
    async with enrolled() as manage:
        _, answer = await manage.put(b'{"kid": 1, "signature": "AAAA"}')
        assert {item["field"] for item in answer["problems"]} == {"kid", "payload", "signature"}


async def test_chunked_body_without_length_is_bounded_too(enrolled: Enrolled) -> None:
    async def chunks() -> Any:
        for _ in range(40):
            yield b"x" * 65536

    async with enrolled() as manage:
        headers = {"Content-Type": "application/json"}
        async with manage.session.put(manage.url + "/manage/v1/desired", data=chunks(), headers=headers) as response:
            assert response.status == 413
        await _assert_untouched(manage)


async def test_policy_that_cannot_hold_here_is_refused_field_by_field(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        document = policy().as_dict()
        document["tiers"]["dram"]["capacity"] = {"bytes": 1 << 50}
        document["tiers"]["dram"]["eviction"] = "magic"
        code, answer = await manage.put(control_plane.seal(1, document=document).model_dump_json())
        assert (code, answer["type"], answer["state"]) == (422, "urn:kvfabric:problem:refused", "refused")
        assert any("eviction" in item["field"] for item in answer["problems"])
        reply = ApplyReply.from_body(answer)
        assert (reply.observed_generation, reply.applied_digest) == (0, None)
        await _assert_untouched(manage)
        condition = await manage.condition("policy_refused")
        assert (condition["status"], condition["reason"]) == ("true", "refused")
        assert "generation 1" in condition["message"]


async def test_document_that_is_not_what_the_digest_names_is_refused(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        body = control_plane.seal(1, policy(0.1), document=policy(0.9).as_dict()).model_dump_json()
        code, answer = await manage.put(body)
        assert (code, answer["problems"][0]["field"]) == (422, "digest")
        await _assert_untouched(manage)


async def test_push_to_an_agent_that_is_not_enrolled_is_not_believed(
    make_runtime: Runtimes, control_plane: ControlPlane
) -> None:
    async with managed(make_runtime()) as manage:
        code, answer = await manage.put(control_plane.seal(1, aud="").model_dump_json())
        assert code == 403
        assert "not enrolled" in answer["detail"]
        await _assert_untouched(manage)


async def test_push_signed_for_the_identity_before_is_not_believed(
    enrolled: Enrolled, control_plane: ControlPlane, tmp_path
) -> None:
    async with enrolled():
        recorded = control_plane.seal(90, policy(0.9)).model_dump_json()
    control_plane.members.clear()
    (tmp_path / "state/identity.json").unlink()
    async with enrolled() as manage:
        assert (await manage.put(recorded))[0] == 403
        await _assert_untouched(manage)


@pytest.mark.parametrize("token", ["grant", "local"])
async def test_permission_to_read_is_none_to_change(
    enrolled: Enrolled, control_plane: ControlPlane, token: str
) -> None:
    async with enrolled() as manage:
        bearer = control_plane.grant() if token == "grant" else manage.metrics_token
        unsigned = {"kid": "cp-1", "payload": "e30=", "signature": base64.b64encode(secrets.token_bytes(64)).decode()}
        code, _ = await manage.put(json.dumps(unsigned), Authorization=f"Bearer {bearer}")
        assert code == 403
        await _assert_untouched(manage)


async def test_body_that_does_not_arrive_is_given_up(enrolled: Enrolled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_TIMEOUT_S", 0.2)
    async with enrolled() as manage:
        port = int(manage.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = "PUT /manage/v1/desired HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + b"Content-Length: 100\r\n\r\n{")
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"application/problem+json" in answer


async def test_pushes_in_parallel_end_with_the_highest_generation(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        bodies = [control_plane.seal(g, policy(g / 100)).model_dump_json() for g in range(1, 31)]
        answers = await asyncio.gather(*(manage.put(body) for body in reversed(bodies)))
        assert {code for code, _ in answers} <= {200, 409}
        assert manage.runtime.observed_generation == 30
        assert manage.runtime.policy == policy(0.3)


async def test_full_disk_refuses_the_policy_and_the_last_good_one_stays(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        await manage.put(control_plane.seal(1, policy(0.2)).model_dump_json())
        (manage.state_dir / "policy.json.new").mkdir()
        code, answer = await manage.put(control_plane.seal(2, policy(0.3)).model_dump_json())
        assert (code, answer["observed_generation"]) == (422, 1)
        assert "cannot store the policy" in answer["problems"][0]["problem"]
        assert manage.runtime.policy == policy(0.2)
        (manage.state_dir / "policy.json.new").rmdir()
        assert (await manage.put(control_plane.seal(2, policy(0.3)).model_dump_json()))[0] == 200
