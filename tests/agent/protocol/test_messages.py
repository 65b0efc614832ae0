"""The wire contract: what may be believed, what is refused, and that no message passes for another."""

import base64
import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent import protocol
from agent.protocol import (
    ApplyReply,
    ApplyState,
    Desired,
    EnrollReply,
    Envelope,
    Grant,
    Heartbeat,
    HeartbeatReply,
    Message,
    ProtocolError,
    enroll_payload,
    public_key_text,
    rejoin_payload,
    sign,
    verify,
)
from kvcache.policy import default_policy

KEY = Ed25519PrivateKey.generate()
KEYS = {"k1": public_key_text(KEY)}
NOW_S = 1_800_000_000.0


def _desired(**changes: Any) -> Desired:
    document = default_policy()
    fields: dict[str, Any] = {
        "aud": "agent-1",
        "generation": 3,
        "digest": document.digest(),
        "document": document.as_dict(),
        "nonce": "n" * 32,
        "iat_s": NOW_S,
        "exp_s": NOW_S + 60,
    }
    return Desired(**(fields | changes))


def _grant(**changes: Any) -> Grant:
    return Grant(**({"aud": "agent-1", "iat_s": NOW_S, "exp_s": NOW_S + 60} | changes))


def test_desired_sealed_and_opened_is_the_same() -> None:
    envelope = Envelope.seal(_desired(), KEY, "k1")
    again = Envelope.model_validate_json(envelope.model_dump_json())
    assert again.open_desired(keys=KEYS, audience="agent-1", now_s=NOW_S) == _desired()


def test_grant_survives_the_header_and_is_short() -> None:
    token = Envelope.seal(_grant(), KEY, "k1").bearer()
    assert token.isascii()
    assert len(token) < 1024
    assert Envelope.from_bearer(token).open_grant(keys=KEYS, audience="agent-1", now_s=NOW_S) == _grant()


def test_signature_is_plain_ed25519_over_the_payload() -> None:
    envelope = Envelope.seal(_grant(), KEY, "k1")
    KEY.public_key().verify(base64.b64decode(envelope.signature), base64.b64decode(envelope.payload))


def test_every_single_changed_byte_of_the_payload_is_noticed() -> None:
    envelope = Envelope.seal(_grant(), KEY, "k1")
    payload = base64.b64decode(envelope.payload)
    for index in range(len(payload)):
        changed = payload[:index] + bytes([payload[index] ^ 1]) + payload[index + 1 :]
        forged = envelope.model_copy(update={"payload": base64.b64encode(changed).decode()})
        with pytest.raises(ProtocolError, match="signature"):
            forged.open_grant(keys=KEYS, audience="agent-1", now_s=NOW_S)


def test_grant_does_not_pass_for_a_policy_nor_a_policy_for_a_grant() -> None:
    with pytest.raises(ProtocolError, match="not a desired message"):
        Envelope.seal(_grant(), KEY, "k1").open_desired(keys=KEYS, audience="agent-1", now_s=NOW_S)
    with pytest.raises(ProtocolError, match="not a grant message"):
        Envelope.seal(_desired(), KEY, "k1").open_grant(keys=KEYS, audience="agent-1", now_s=NOW_S)


@pytest.mark.parametrize(
    ("keys", "audience", "now_s", "words"),
    [
        ({}, "agent-1", NOW_S, "does not know"),
        ({"k2": KEYS["k1"]}, "agent-1", NOW_S, "does not know"),
        ({"k1": public_key_text(Ed25519PrivateKey.generate())}, "agent-1", NOW_S, "signature"),
        ({"k1": "bm90IGEga2V5"}, "agent-1", NOW_S, "not a desired"),
        (KEYS, "agent-2", NOW_S, "not for this one"),
        (KEYS, "", NOW_S, "not for this one"),
        (KEYS, "agent-1", NOW_S + 60 + 601, "validity"),
        (KEYS, "agent-1", NOW_S - 601, "validity"),
        (KEYS, "agent-1", float("nan"), "validity"),
    ],
)
def test_envelope_not_for_us_or_not_now_is_refused(
    keys: dict[str, str], audience: str, now_s: float, words: str
) -> None:
    with pytest.raises(ProtocolError, match=words):
        Envelope.seal(_desired(), KEY, "k1").open_desired(keys=keys, audience=audience, now_s=now_s)


def test_time_is_a_loose_bound_and_can_be_left_out() -> None:
    envelope = Envelope.seal(_desired(), KEY, "k1")
    for now_s in (NOW_S - 599, NOW_S + 60 + 599, None):
        assert envelope.open_desired(keys=KEYS, audience="agent-1", now_s=now_s).generation == 3


@pytest.mark.parametrize(
    "token",
    [
        "", "kvg1", "kvg1.", "kva1.abc", "kvg2.e30", "kvg1.e30", "kvg1.!!!!", "kvg1.e30 ", "kvg1.é",
        "kvg1.e3\n0", "KVG1.e30", "kvg1." + "A" * 5000, "kvg1." + base64.urlsafe_b64encode(b'{"kid":1}').decode(),
        "kvg1.\udcff", "kvg1." + base64.urlsafe_b64encode(b"[" * 2000).decode().rstrip("="),
    ],
)  # fmt: skip
def test_bearer_that_is_no_grant_is_a_protocol_error(token: str) -> None:
    with pytest.raises(ProtocolError):
        Envelope.from_bearer(token)


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_truncated_bearer_is_refused(cut: int) -> None:
    token = Envelope.seal(_grant(), KEY, "k1").bearer()[:-cut]
    with pytest.raises(ProtocolError):
        Envelope.from_bearer(token).open_grant(keys=KEYS, audience="agent-1", now_s=NOW_S)


@given(st.text(max_size=300))
def test_no_text_makes_from_bearer_raise_anything_else(text: str) -> None:
    with pytest.raises(ProtocolError):
        Envelope.from_bearer("kvg1." + text)


@given(payload=st.text(max_size=200), signature=st.text(min_size=88, max_size=88))
def test_no_envelope_makes_open_raise_anything_else(payload: str, signature: str) -> None:
    envelope = Envelope(kid="k1", payload=payload, signature=signature)
    with pytest.raises(ProtocolError):
        envelope.open_desired(keys=KEYS, audience="agent-1", now_s=NOW_S)


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    with pytest.raises(ValidationError):
        HeartbeatReply.model_validate_json(f'{{"server_time_s": {number}}}')


def test_unknown_fields_are_refused_in_every_message() -> None:
    kinds = [kind for name in protocol.__all__ if isinstance(kind := getattr(protocol, name), type)]
    messages = [kind for kind in kinds if issubclass(kind, Message) and kind is not Message]
    assert len(messages) >= 18
    for kind in messages:
        with pytest.raises(ValidationError) as caught:
            kind.model_validate({"surprise": 1})
        assert any(item["type"] == "extra_forbidden" for item in caught.value.errors()), kind


def test_enrolment_without_a_key_to_pin_is_refused() -> None:
    with pytest.raises(ValidationError, match="control_plane_keys"):
        EnrollReply(
            agent_id="a",
            access_token="t",
            access_token_expires_s=1,
            control_plane_keys={},
            join_seq=1,
            heartbeat_interval_s=1,
            server_time_s=1,
        )


def test_enrol_and_rejoin_signatures_are_not_interchangeable() -> None:
    enrol = enroll_payload(nonce="n", token_id="t", public_key="p")
    rejoin = rejoin_payload(agent_id="t", nonce="n", join_seq=1)
    assert enrol == b"kvf-enroll-v1\x00n\x00t\x00p"
    assert rejoin == b"kvf-rejoin-v1\x00t\x00n\x001"
    assert verify(KEYS["k1"], enrol, sign(KEY, enrol))
    assert not verify(KEYS["k1"], rejoin, sign(KEY, enrol))


@pytest.mark.parametrize("signature", ["", "x", "=" * 88, "A" * 88, "é" * 88])
def test_verify_of_garbage_is_false(signature: str) -> None:
    assert not verify(KEYS["k1"], b"payload", signature)
    assert not verify("not a key", b"payload", sign(KEY, b"payload"))


def test_apply_reply_is_read_from_plain_and_problem_bodies() -> None:
    reply = ApplyReply(state=ApplyState.STALE, observed_generation=7)
    body = json.loads(reply.model_dump_json()) | {
        "type": "urn:x:stale",
        "title": "Conflict",
        "status": 409,
        "detail": "…",
    }
    assert ApplyReply.from_body(body) == reply
    with pytest.raises(ValidationError):
        ApplyReply.from_body({"type": "about:blank", "title": "Bad Gateway"})


def test_largest_heartbeat_fits_the_body_limit() -> None:
    inventory = protocol.HostInventory(
        source="s",
        observed_at_s=time.time(),
        hostname="h" * 255,
        block_devices=[
            protocol.BlockDeviceFact(name=f"nvme{i}n1", model="m" * 255, serial="s" * 255) for i in range(64)
        ],
        network_devices=[protocol.NetworkDeviceFact(name=f"en{i}", kind="virtual") for i in range(512)],
    )
    status = protocol.Status(agent_id="a", version="v", boot_id="b", started_at_s=1, observed_generation=0)
    beat = Heartbeat(seq=1, join_seq=1, agent_time_s=1, status=status, inventory=inventory)
    assert len(beat.model_dump_json()) < protocol.MAX_BODY_BYTES
