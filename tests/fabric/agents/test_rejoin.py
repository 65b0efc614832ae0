"""Recovery by key and join sequence, and what happens to a copied identity."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agent.protocol import rejoin_payload, sign
from fabric.agents.models import AccessToken, Agent, AgentState, Challenge
from fabric.agents.services import approve_agent, revoke_agent, unlock_agent
from fabric.audit.models import AuditEntry
from fabric.core.actor import SYSTEM, Actor
from tests.fabric.agents.joining import Joiner, join_token

pytestmark = pytest.mark.django_db


def refusal(response) -> str:
    """Return the word in a refusal."""
    assert response.status_code == 403, response.content
    return response.json()["type"].rpartition(":")[2]


def copied(joiner: Joiner, **changes) -> Joiner:
    """Return a second machine with a copy of the state directory."""
    copy = Joiner(hostname="copy", key=joiner.key)
    copy.agent_id, copy.access_token, copy.join_seq = joiner.agent_id, joiner.access_token, joiner.join_seq
    copy.boot_id = "boot-of-the-copy"
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy


def test_agent_whose_token_expired_comes_back_with_its_key() -> None:
    joiner = Joiner().enroll()
    AccessToken.objects.update(expires_at=timezone.now())
    assert joiner.beat().status_code == 401
    before = joiner.agent_id
    joiner.rejoin()
    assert (joiner.agent_id, joiner.join_seq) == (before, 2)
    assert joiner.beat().status_code == 200
    row = AuditEntry.objects.get(verb="rejoin")
    assert (row.before, row.after) == ({"join_seq": 1}, {"join_seq": 2})


def test_rejoin_ends_the_tokens_that_were_given_before() -> None:
    joiner = Joiner().enroll()
    old = joiner.access_token
    joiner.rejoin()
    assert joiner.post("heartbeat", joiner.heartbeat(), old).status_code == 401
    assert AccessToken.objects.count() == 1


def test_second_copy_that_recovers_locks_both() -> None:
    joiner = Joiner().enroll()
    thief = copied(joiner)
    thief.rejoin()
    assert thief.beat().status_code == 200
    assert joiner.beat().status_code == 401
    assert refusal(joiner.try_rejoin()) == "join-seq-stale"
    assert joiner.row.state == AgentState.LOCKED
    assert refusal(thief.beat()) == "agent-locked"
    assert refusal(thief.try_rejoin()) == "agent-locked"
    row = AuditEntry.objects.get(verb="lock")
    assert (row.actor_kind, row.after) == ("system", {"state": "locked"})


def test_sequence_from_the_future_locks_too() -> None:
    joiner = Joiner().enroll()
    joiner.beat()
    assert refusal(joiner.try_rejoin(join_seq=99)) == "join-seq-stale"
    assert joiner.row.state == AgentState.LOCKED


def test_answer_that_was_lost_does_not_lock() -> None:
    joiner = Joiner().enroll()
    joiner.beat()
    assert joiner.try_rejoin().status_code == 200  # and never arrives
    joiner.rejoin()
    assert joiner.beat().status_code == 200
    assert joiner.row.state == AgentState.ACTIVE


def test_copy_in_the_gap_of_a_lost_answer_is_still_noticed() -> None:
    joiner = Joiner().enroll()
    joiner.beat()
    thief = copied(joiner)
    thief.rejoin()
    joiner.rejoin()
    assert thief.beat().status_code == 401
    assert joiner.beat().status_code == 200
    assert refusal(thief.try_rejoin()) == "join-seq-stale"


def test_unlock_lets_the_next_one_in_whatever_its_sequence(admin: Actor) -> None:
    joiner = Joiner().enroll()
    joiner.beat()
    joiner.try_rejoin(join_seq=99)
    unlock_agent(actor=admin, agent_id=joiner.row.pk, reason="the copy was deleted")
    assert joiner.beat().status_code == 401
    joiner.rejoin()
    assert joiner.beat().status_code == 200
    assert refusal(copied(joiner, join_seq=1).try_rejoin()) == "join-seq-stale"


@pytest.mark.parametrize(
    ("state", "word"), [("locked", "agent-locked"), ("denied", "agent-denied"), ("revoked", "agent-revoked")]
)
def test_agent_that_is_not_trusted_does_not_come_back(state: str, word: str) -> None:
    joiner = Joiner().enroll()
    Agent.objects.update(state=state)
    assert refusal(joiner.try_rejoin()) == word
    assert joiner.row.join_seq == 1


def test_pending_agent_may_keep_its_place_in_the_queue(admin: Actor) -> None:
    joiner = Joiner().enroll(needs_approval=True)
    joiner.rejoin()
    assert refusal(joiner.beat()) == "agent-pending"
    approve_agent(actor=admin, agent_id=joiner.row.pk)
    assert joiner.beat().status_code == 200


def test_unknown_agent_must_enrol() -> None:
    joiner = Joiner().enroll()
    Agent.objects.all().delete()
    assert refusal(joiner.try_rejoin()) == "agent-unknown"


@pytest.mark.parametrize("agent_id", ["x", "", "11111111-1111-4111-8111-11111111111", "🙂", "x" * 255])
def test_id_that_is_none_is_refused(agent_id: str) -> None:
    assert refusal(Joiner().post("rejoin/challenge", {"agent_id": agent_id})) == "agent-unknown"


def test_challenge_does_not_tell_whether_there_is_such_an_agent() -> None:
    known = Joiner().enroll()
    answers = [
        known.post("rejoin/challenge", {"agent_id": agent_id})
        for agent_id in (known.agent_id, "11111111-1111-4111-8111-111111111111")
    ]
    assert {answer.status_code for answer in answers} == {200}
    assert answers[0].json().keys() == answers[1].json().keys()


def test_other_agents_key_does_not_recover_this_agent() -> None:
    victim, thief = Joiner().enroll(), Joiner(hostname="b").enroll()
    body = victim.rejoin_request()
    proof = rejoin_payload(agent_id=victim.agent_id, nonce=body["nonce"], join_seq=1)
    assert refusal(thief.post("rejoin", body | {"signature": sign(thief.key, proof)})) == "challenge"
    assert victim.row.state == AgentState.ACTIVE
    assert victim.beat().status_code == 200


@pytest.mark.parametrize("changed", ["nonce", "join_seq", "agent_id"])
def test_signature_over_anything_else_is_refused_and_locks_nobody(changed: str) -> None:
    joiner, other = Joiner().enroll(), Joiner(hostname="b").enroll()
    body = joiner.rejoin_request()
    facts = {"agent_id": joiner.agent_id, "nonce": body["nonce"], "join_seq": 1}
    facts[changed] = {"nonce": "n" * 43, "join_seq": 2, "agent_id": other.agent_id}[changed]
    body["signature"] = sign(joiner.key, rejoin_payload(**facts))
    assert refusal(joiner.post("rejoin", body)) == "challenge"
    assert set(Agent.objects.values_list("state", flat=True)) == {"active"}


def test_recorded_rejoin_cannot_be_played_again() -> None:
    joiner = Joiner().enroll()
    body = joiner.rejoin_request()
    assert joiner.post("rejoin", body).status_code == 200
    for _ in range(5):
        assert refusal(joiner.post("rejoin", body)) == "challenge"
    assert (joiner.row.join_seq, joiner.row.state) == (2, AgentState.ACTIVE)


def test_nonce_of_another_agent_or_for_enrolling_is_refused() -> None:
    joiner, other, token = Joiner().enroll(), Joiner(hostname="b").enroll(), join_token()
    for nonce in (other.rejoin_request()["nonce"], joiner.challenge(token)):
        body = joiner.rejoin_request()
        proof = rejoin_payload(agent_id=joiner.agent_id, nonce=nonce, join_seq=1)
        assert (
            refusal(joiner.post("rejoin", body | {"nonce": nonce, "signature": sign(joiner.key, proof)})) == "challenge"
        )


def test_old_nonce_is_refused() -> None:
    joiner = Joiner().enroll()
    body = joiner.rejoin_request()
    Challenge.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert refusal(joiner.post("rejoin", body)) == "challenge"


def test_fourth_recovery_in_a_day_waits() -> None:
    joiner = Joiner().enroll()
    for _ in range(3):
        joiner.rejoin()
    response = joiner.try_rejoin()
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 0
    assert joiner.row.state == AgentState.ACTIVE
    AuditEntry.objects.filter(verb="rejoin").update(at=timezone.now() - timedelta(hours=25))
    joiner.rejoin()


def test_revocation_is_seen_by_the_next_call() -> None:
    joiner = Joiner().enroll()
    assert joiner.beat().status_code == 200
    revoke_agent(actor=SYSTEM, agent_id=joiner.row.pk)
    assert refusal(joiner.beat()) == "agent-revoked"
    assert refusal(joiner.try_rejoin()) == "agent-revoked"
