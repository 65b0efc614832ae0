"""Enrolment through its door: what a machine gets, and each way in which it gets nothing."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.settings import api_settings

from agent.protocol import enroll_payload, sign
from fabric.agents.models import AccessToken, Agent, AgentState, Challenge, JoinToken
from fabric.agents.services import challenges, control_plane_keys, revoke_join_token
from fabric.audit.models import AuditEntry
from fabric.core.actor import SYSTEM
from fabric.pools.models import Pool
from tests.fabric.agents.joining import CAPABILITIES, Joiner, join_token
from tests.fabric.people import Door

pytestmark = pytest.mark.django_db


def assert_refused(response: Any, refusal: str) -> None:
    """Check that nothing was made, and why."""
    assert response.status_code == 403, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["type"] == f"urn:kvfabric:problem:{refusal}"
    assert not Agent.objects.exists()
    assert not AccessToken.objects.exists()
    assert not JoinToken.objects.filter(uses__gt=0).exists()


def test_machine_with_a_token_becomes_an_active_agent_of_the_tokens_pool() -> None:
    pool = Pool.objects.create(name="warm")
    joiner = Joiner(serial="SN-1").enroll(pool_id=pool.pk)
    agent = joiner.row
    assert (agent.name, agent.state, agent.pool, agent.serial) == ("gpu-01", AgentState.ACTIVE, pool, "SN-1")
    assert (agent.public_key, agent.manage_url, agent.capabilities) == (
        joiner.public_key,
        joiner.manage_url,
        CAPABILITIES,
    )
    reply = joiner.reply
    assert (reply["join_seq"], reply["control_plane_keys"]) == (1, control_plane_keys())
    assert reply["access_token"].startswith("kva1_")
    assert 86_000 < reply["access_token_expires_s"] - timezone.now().timestamp() <= 86_400
    assert joiner.beat().status_code == 200
    row = AuditEntry.objects.get(verb="enroll")
    assert (row.actor_kind, row.actor_id, row.object_id) == ("agent", str(agent.pk), str(agent.pk))


def test_identity_is_made_here_and_never_the_hosts_name_or_serial() -> None:
    first = Joiner(hostname="same").enroll()
    second = Joiner(hostname="same").enroll()
    assert first.agent_id != second.agent_id
    assert first.row.name == "same"
    assert second.row.name == f"same-{second.agent_id[:8]}"


@pytest.mark.parametrize("hostname", ["", "\x00", "x" * 255, "a\nb", "\u202egnp.exe"])
def test_strange_hostname_gives_a_usable_name(hostname: str) -> None:
    name = Joiner(hostname=hostname).enroll().row.name
    assert name.isprintable()
    assert 0 < len(name) <= 100


def test_token_that_asks_for_approval_makes_a_pending_agent() -> None:
    joiner = Joiner().enroll(needs_approval=True)
    assert joiner.row.state == AgentState.PENDING
    refused = joiner.beat()
    assert refused.status_code == 403
    assert refused.json()["type"].endswith("agent-pending")


def test_token_for_several_always_asks_for_approval() -> None:
    token = join_token(max_uses=2)
    assert Joiner().enroll(token).row.state == AgentState.PENDING
    assert Joiner().enroll(token).row.state == AgentState.PENDING
    response = Joiner().try_enroll(token)
    assert response.json()["type"].endswith("token-used")
    assert Agent.objects.count() == 2


# --- the ways in which it gets nothing -------------------------------------------------------------------------------


def test_used_token_is_refused() -> None:
    token = join_token()
    Joiner().enroll(token)
    response = Joiner().try_enroll(token)
    assert (response.status_code, response.json()["type"]) == (403, "urn:kvfabric:problem:token-used")
    assert Agent.objects.count() == 1


def test_expired_token_is_refused() -> None:
    token = join_token()
    JoinToken.objects.update(expires_at=timezone.now())
    assert_refused(Joiner().try_enroll(token), "token-expired")


def test_revoked_token_is_refused() -> None:
    token = join_token()
    revoke_join_token(actor=SYSTEM, token_id=JoinToken.objects.get().pk)
    assert_refused(Joiner().try_enroll(token), "token-revoked")


def test_unknown_token_and_wrong_secret_look_the_same() -> None:
    token = join_token()
    wrong = token[:14] + "x" * 43
    unknown = "kvj1_" + "z" * 8 + token[13:]
    answers = [Joiner().try_enroll(text).json() for text in (wrong, unknown)]
    assert answers[0] == answers[1]
    assert_refused(Joiner().try_enroll(wrong), "token-unknown")


def test_wrong_secret_does_not_tell_that_a_token_has_expired() -> None:
    token = join_token()
    JoinToken.objects.update(expires_at=timezone.now())
    assert_refused(Joiner().try_enroll(token[:14] + "x" * 43), "token-unknown")


def test_secret_of_another_token_is_refused() -> None:
    first, second = join_token(), join_token()
    assert_refused(Joiner().try_enroll(first[:14] + second[14:]), "token-unknown")


def test_token_for_another_machine_is_refused() -> None:
    assert_refused(Joiner(serial="SN-2").try_enroll(join_token(expected_serial="SN-1")), "token-scope")


def test_token_for_a_machine_is_refused_to_one_that_names_no_serial() -> None:
    assert_refused(Joiner(serial=None).try_enroll(join_token(expected_serial="SN-1")), "token-scope")
    assert_refused(
        Joiner(serial="Default string").try_enroll(join_token(expected_serial="Default string")), "token-scope"
    )


def test_token_for_another_network_is_refused() -> None:
    joiner = Joiner(address="192.0.2.7", manage_url="https://192.0.2.7:6401")
    assert_refused(joiner.try_enroll(join_token(allowed_cidr="10.0.0.0/8")), "token-scope")


def test_token_for_a_network_is_refused_to_a_peer_without_an_address() -> None:
    joiner = Joiner(address="", manage_url="https://a.example:6401")
    assert_refused(joiner.try_enroll(join_token(allowed_cidr="0.0.0.0/0")), "token-scope")


@pytest.mark.parametrize(
    ("cidr", "address"), [("10.0.0.0/8", "10.1.2.3"), ("10.0.0.0/8", "::ffff:10.1.2.3"), ("fd00::/8", "fd00::1")]
)
def test_token_for_the_right_network_lets_in(cidr: str, address: str) -> None:
    Joiner(address=address, manage_url="https://agent.example:6401").enroll(allowed_cidr=cidr)


def test_forged_forwarding_header_does_not_move_a_machine_into_the_network() -> None:
    joiner, token = (
        Joiner(address="192.0.2.7", manage_url="https://192.0.2.7:6401"),
        join_token(allowed_cidr="10.0.0.0/8"),
    )
    body = joiner.request(token, joiner.challenge(token))
    client = Door(REMOTE_ADDR="192.0.2.7", headers={"x-forwarded-for": "10.0.0.1", "x-real-ip": "10.0.0.1"})
    assert_refused(client.post("/agent/v1/enroll", body, format="json"), "token-scope")


def test_nonce_never_given_is_refused() -> None:
    token, joiner = join_token(), Joiner()
    assert_refused(joiner.post("enroll", joiner.request(token, "n" * 43)), "challenge")


def test_nonce_is_good_once_even_when_the_enrolment_failed() -> None:
    token, joiner = join_token(), Joiner()
    nonce = joiner.challenge(token)
    bad = joiner.request(token, nonce, token_secret="x" * 43)
    assert_refused(joiner.post("enroll", bad), "token-unknown")
    assert_refused(joiner.post("enroll", joiner.request(token, nonce)), "challenge")


def test_replayed_enrolment_is_refused() -> None:
    token, joiner = join_token(max_uses=5), Joiner()
    body = joiner.request(token, joiner.challenge(token))
    assert joiner.post("enroll", body).status_code == 200
    for _ in range(5):
        assert joiner.post("enroll", body).json()["type"].endswith("challenge")
    assert Agent.objects.count() == AccessToken.objects.count() == JoinToken.objects.get().uses == 1


def test_old_nonce_is_refused() -> None:
    token, joiner = join_token(), Joiner()
    nonce = joiner.challenge(token)
    Challenge.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert_refused(joiner.post("enroll", joiner.request(token, nonce)), "challenge")


def test_nonce_of_another_key_is_refused() -> None:
    token, joiner, other = join_token(), Joiner(), Joiner()
    assert_refused(joiner.post("enroll", joiner.request(token, other.challenge(token))), "challenge")


def test_nonce_of_another_token_is_refused() -> None:
    first, second, joiner = join_token(), join_token(), Joiner()
    assert_refused(joiner.post("enroll", joiner.request(second, joiner.challenge(first))), "challenge")


def test_nonce_for_a_rejoin_does_not_enrol() -> None:
    token, joiner = join_token(), Joiner()
    nonce = joiner.post("rejoin/challenge", {"agent_id": "11111111-1111-4111-8111-111111111111"}).json()["nonce"]
    assert_refused(joiner.post("enroll", joiner.request(token, nonce)), "challenge")


@pytest.mark.parametrize("wrong", ["nonce", "token_id", "key", "context", "empty"])
def test_signature_over_anything_else_is_refused(wrong: str) -> None:
    token, joiner = join_token(), Joiner()
    nonce = joiner.challenge(token)
    good = enroll_payload(nonce=nonce, token_id=token[5:13], public_key=joiner.public_key)
    payload = {
        "nonce": enroll_payload(nonce="n" * 43, token_id=token[5:13], public_key=joiner.public_key),
        "token_id": enroll_payload(nonce=nonce, token_id="z" * 8, public_key=joiner.public_key),
        "key": enroll_payload(nonce=nonce, token_id=token[5:13], public_key=Joiner().public_key),
        "context": good.replace(b"enroll", b"rejoin"),
        "empty": b"",
    }[wrong]
    assert_refused(
        joiner.post("enroll", joiner.request(token, nonce, signature=sign(joiner.key, payload))), "challenge"
    )


@pytest.mark.parametrize("signature", ["ü" * 88, "A" * 88, "=" * 88, "\x00" * 88])
def test_signature_that_is_none_is_refused(signature: str) -> None:
    token, joiner = join_token(), Joiner()
    body = joiner.request(token, joiner.challenge(token), signature=signature)
    assert_refused(joiner.post("enroll", body), "challenge")


def test_signature_by_another_key_is_refused() -> None:
    token, joiner = join_token(), Joiner()
    nonce = joiner.challenge(token)
    proof = enroll_payload(nonce=nonce, token_id=token[5:13], public_key=joiner.public_key)
    assert_refused(
        joiner.post("enroll", joiner.request(token, nonce, signature=sign(Joiner().key, proof))), "challenge"
    )


def test_other_agents_public_key_cannot_be_claimed() -> None:
    victim, token, thief = Joiner().enroll(), join_token(), Joiner()
    nonce = thief.challenge(token, public_key=victim.public_key)
    proof = enroll_payload(nonce=nonce, token_id=token[5:13], public_key=victim.public_key)
    body = thief.request(token, nonce, public_key=victim.public_key, signature=sign(thief.key, proof))
    assert thief.post("enroll", body).json()["type"].endswith("challenge")
    assert victim.beat().status_code == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"token_secret": "short"},
        {"token_secret": "x" * 101},
        {"token_secret": None},
        {"token_id": "UPPERCAS"},
        {"token_id": "sieben7"},
        {"token_id": "kvj1_abcdefgh"},
        {"token_id": "абвгдежз"},
        {"public_key": "x" * 44},
        {"public_key": ""},
        {"signature": "x"},
        {"nonce": "n" * 20},
        {"nonce": "n" * 65},
        {"protocol": "v2"},
        {"hostname": "x" * 256},
        {"hostname": None},
        {"capabilities": {}},
        {"capabilities": CAPABILITIES | {"tiers": ["hbm"]}},
        {"capabilities": CAPABILITIES | {"dram_limit_bytes": -1}},
        {"serial": "x" * 256},
        {"state": "active"},
        {"agent_id": "11111111-1111-4111-8111-111111111111"},
    ],
    ids=lambda changes: next(iter(changes)) + "=" + repr(next(iter(changes.values())))[:14],
)
def test_message_that_is_none_is_422_and_names_the_field_without_its_value(changes: dict[str, Any]) -> None:
    token, joiner = join_token(), Joiner()
    body = joiner.request(token, joiner.challenge(token)) | changes
    response = joiner.post("enroll", body)
    assert response.status_code == 422, response.content
    assert response.json()["problems"][0]["field"].startswith(next(iter(changes)))
    assert token[14:] not in response.content.decode()
    assert "x" * 44 not in response.content.decode()
    assert not Agent.objects.exists()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"a":1e999}'])
@pytest.mark.parametrize("path", ["enroll/challenge", "enroll", "rejoin/challenge", "rejoin"])
def test_garbage_is_a_client_error_at_every_door(path: str, body: bytes) -> None:
    response = Door().generic("POST", f"/agent/v1/{path}", body, content_type="application/json")
    assert response.status_code in (400, 422)
    assert response["Content-Type"] == "application/problem+json"


def test_unusable_public_key_is_refused() -> None:
    token, joiner = join_token(), Joiner()
    zeros = "A" * 43 + "="
    nonce = joiner.challenge(token, public_key=zeros)
    assert_refused(joiner.post("enroll", joiner.request(token, nonce, public_key=zeros)), "challenge")


@pytest.mark.parametrize(
    ("field", "url"),
    [
        ("manage_url", "ftp://127.0.0.1:6401"),
        ("manage_url", "http://127.0.0.1"),
        ("manage_url", "http://127.0.0.1:6401/path"),
        ("manage_url", "http://127.0.0.1:6401?x=1"),
        ("manage_url", "http://127.0.0.1:6401#x"),
        ("manage_url", "http://user:pw@127.0.0.1:6401"),
        ("manage_url", "http://127.0.0.1:99999"),
        ("manage_url", "http://:6401"),
        ("manage_url", "https://169.254.169.254:80"),
        ("manage_url", "https://[fe80::1]:80"),
        ("manage_url", "https://0.0.0.0:6401"),
        ("manage_url", "https://224.0.0.1:6401"),
        ("manage_url", "https://[::ffff:169.254.169.254]:80"),
        ("manage_url", "http://10.0.0.5:6401"),
        ("manage_url", "https://exämple:6401"),
        ("manage_url", "https://a b:6401"),
        ("manage_url", "https://[::1"),
        ("manage_url", ""),
        ("data_url", "http://127.0.0.1:6400"),
        ("data_url", "redis://127.0.0.1"),
        ("data_url", "redis://:secret@127.0.0.1:6400"),
        ("data_url", "unix:///run/redis.sock"),
    ],
)
def test_address_that_leads_elsewhere_is_refused_and_the_token_kept(field: str, url: str) -> None:
    response = Joiner().try_enroll(join_token(), **{field: url})
    assert response.status_code == 422
    assert response.json()["problems"][0]["field"] == field
    assert not Agent.objects.exists()
    assert JoinToken.objects.get().uses == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:8400", "https://localhost:8400", "https://[::1]:8400"])
def test_loopback_of_the_control_plane_is_no_address_of_a_distant_agent(url: str) -> None:
    joiner = Joiner(address="192.0.2.7", manage_url=url)
    response = joiner.try_enroll(join_token())
    assert response.json()["problems"][0]["field"] == "manage_url"


@pytest.mark.parametrize("url", ["https://10.0.0.5:6401", "https://agent.example:6401", "https://[fd00::5]:6401/"])
def test_private_and_named_addresses_with_tls_are_taken(url: str) -> None:
    assert Joiner(address="10.0.0.5", manage_url=url).enroll().row.manage_url == url


# --- one serial number, two keys -------------------------------------------------------------------------------------


def test_known_serial_with_another_key_is_denied_and_told_to_operators() -> None:
    first = Joiner(serial="SN-1").enroll()
    second = Joiner(serial="SN-1", hostname="impostor").enroll()
    assert second.row.state == AgentState.DENIED
    assert first.row.state == AgentState.ACTIVE
    refused = second.beat()
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:kvfabric:problem:agent-denied")
    row = AuditEntry.objects.get(verb="deny")
    assert row.object_id == second.agent_id
    assert "SN-1" in row.reason
    assert first.beat().status_code == 200


def test_placeholder_serials_do_not_deny_anybody() -> None:
    for _ in range(2):
        assert Joiner(serial="To Be Filled By O.E.M.").enroll().row.state == AgentState.ACTIVE


# --- the same key again ----------------------------------------------------------------------------------------------


def test_agent_that_lost_our_answer_gets_its_identity_again_with_the_same_token() -> None:
    token, joiner = join_token(), Joiner()
    lost = joiner.try_enroll(token).json()
    joiner.enroll(token)
    assert joiner.agent_id == lost["agent_id"]
    assert joiner.join_seq == lost["join_seq"] + 1
    assert JoinToken.objects.get().uses == 1
    assert Agent.objects.count() == 1
    assert joiner.beat().status_code == 200
    joiner.access_token = lost["access_token"]
    assert joiner.beat().status_code == 401


def test_known_key_with_a_new_token_keeps_its_agent_and_uses_the_token_up() -> None:
    joiner = Joiner().enroll()
    before, token = joiner.agent_id, join_token()
    joiner.enroll(token)
    assert joiner.agent_id == before
    assert JoinToken.objects.get(token_id=token[5:13]).uses == 1


def test_revoked_machine_comes_back_as_a_new_agent_only() -> None:
    joiner = Joiner().enroll()
    Agent.objects.update(state=AgentState.REVOKED)
    before = joiner.agent_id
    joiner.enroll()
    assert joiner.agent_id != before
    assert Agent.objects.get(pk=before).state == AgentState.REVOKED


def test_locked_machine_does_not_get_out_by_enrolling() -> None:
    joiner = Joiner().enroll()
    Agent.objects.update(state=AgentState.LOCKED)
    response = joiner.try_enroll(join_token())
    assert response.json()["type"].endswith("agent-locked")
    assert joiner.row.state == AgentState.LOCKED


# --- limits ----------------------------------------------------------------------------------------------------------


def test_too_many_calls_from_one_address_are_braked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(api_settings.DEFAULT_THROTTLE_RATES, "enroll", "5/min")
    joiner = Joiner()
    body = {"token_id": "a" * 8, "public_key": joiner.public_key}
    codes = [joiner.post("enroll/challenge", body).status_code for _ in range(6)]
    assert codes == [200] * 5 + [429]
    response = joiner.post("enroll/challenge", body)
    assert response.status_code == 429
    assert 0 < int(response["Retry-After"]) <= 60
    assert Joiner(address="192.0.2.9").post("enroll/challenge", body).status_code == 200


def test_strangers_cannot_fill_the_table_of_nonces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(challenges, "MAX_OPEN", 3)
    joiner, token = Joiner(), join_token()
    for _ in range(3):
        joiner.challenge(token)
    body = {"token_id": token[5:13], "public_key": joiner.public_key}
    assert joiner.post("enroll/challenge", body).status_code == 429
    Challenge.objects.update(expires_at=timezone.now())
    assert joiner.post("enroll/challenge", body).status_code == 200


def test_body_above_the_limit_is_refused() -> None:
    response = Joiner().post("enroll", {"token_id": "x" * (1 << 20)})
    assert response.status_code == 413


@pytest.mark.parametrize("path", ["enroll/challenge", "enroll", "rejoin/challenge", "rejoin", "heartbeat"])
def test_doors_take_post_only(path: str) -> None:
    for method in ("get", "put", "patch", "delete"):
        assert getattr(Door(), method)(f"/agent/v1/{path}").status_code in (401, 405)
