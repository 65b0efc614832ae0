"""Heartbeats through their door."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agent.protocol import Envelope
from fabric.agents import agent_api, tasks
from fabric.agents.models import AccessToken, Agent, AgentState, Challenge
from fabric.agents.selectors import sync_state
from fabric.agents.services import control_plane_keys, purge_expired, set_desired
from fabric.audit.models import AuditEntry
from fabric.core.actor import SYSTEM
from fabric.inventory.models import Host, LifeCycle, Ssd
from kvcache.policy import default_policy
from tests.fabric.agents.joining import CAPABILITIES, Joiner, inventory

pytestmark = pytest.mark.django_db
POLICY = default_policy()


@pytest.fixture
def joiner(db: None) -> Joiner:
    """Return an enrolled agent."""
    return Joiner().enroll()


def give(joiner: Joiner) -> int:
    """Give the agent the default policy; return the generation."""
    pk = joiner.row.pk
    return set_desired(actor=SYSTEM, agent_ids=[pk], document=POLICY.as_dict(), digest=POLICY.digest())[pk]


def test_report_is_stored_and_answered(joiner: Joiner) -> None:
    before = timezone.now()
    answer = joiner.beat(capabilities=CAPABILITIES | {"dram_limit_bytes": 7}).json()
    agent = joiner.row
    assert agent.last_heartbeat_at is not None
    assert before <= agent.last_heartbeat_at <= timezone.now()
    assert (agent.heartbeat_seq, agent.boot_id, agent.agent_version) == (1, "boot-1", "0.1.0")
    assert agent.status["tiers"][0]["stored_bytes"] == 10
    assert agent.capabilities["dram_limit_bytes"] == 7
    assert agent.started_at is not None
    assert agent.started_at.timestamp() == 1_700_000_000
    assert answer["desired"] is None
    assert abs(answer["server_time_s"] - timezone.now().timestamp()) < 5


def test_clock_of_the_agent_is_compared_and_never_refused(joiner: Joiner) -> None:
    for offset_s in (-86400.0, 86400.0, 1e15, -1e15):
        assert joiner.beat(agent_time_s=timezone.now().timestamp() + offset_s).status_code == 200
        assert joiner.row.clock_offset_s == pytest.approx(offset_s, abs=5)


@pytest.mark.parametrize("started_at_s", [1e300, -1e300, 1e15])
def test_start_that_no_calendar_has_is_unknown(joiner: Joiner, started_at_s: float) -> None:
    assert joiner.beat(status={"started_at_s": started_at_s}).status_code == 200
    assert joiner.row.started_at is None


def test_first_report_and_every_gap_ask_for_the_full_state(joiner: Joiner) -> None:
    full = {"capabilities": CAPABILITIES, "inventory": inventory()}
    assert joiner.beat().json()["send_full"] is True
    assert joiner.beat(**full).json()["send_full"] is False
    assert joiner.beat().json()["send_full"] is False
    joiner.seq += 1
    assert joiner.beat().json()["send_full"] is True
    assert joiner.beat().json()["send_full"] is False
    joiner.boot_id, joiner.seq = "boot-2", 0
    assert joiner.beat().json()["send_full"] is True
    joiner.seq += 5
    assert joiner.beat(**full).json()["send_full"] is False, "the gap is closed by what came with it"


def test_repeated_report_has_no_further_effect(joiner: Joiner) -> None:
    body = joiner.heartbeat(status={"observed_generation": 3})
    joiner.post("heartbeat", body, joiner.access_token)
    joiner.beat(status={"observed_generation": 4})
    Agent.objects.update(last_heartbeat_at=timezone.now() - timedelta(hours=1))
    before = Agent.objects.values().get()
    count = AuditEntry.objects.count()
    for _ in range(10):
        assert joiner.post("heartbeat", body, joiner.access_token).status_code == 200
    assert Agent.objects.values().get() == before
    assert AuditEntry.objects.count() == count


def test_agent_speaks_for_itself_only(joiner: Joiner) -> None:
    other = Joiner(hostname="b").enroll()
    response = joiner.beat(status={"agent_id": other.agent_id})
    assert response.status_code == 403
    assert other.row.last_heartbeat_at is None
    assert joiner.row.last_heartbeat_at is None


@pytest.mark.parametrize(
    "token", ["", "kva1_", "kva1_abcdefghijkl." + "x" * 43, "kvt1_abcdefghijkl." + "x" * 43, "x", "é"]
)
def test_unknown_token_is_401(joiner: Joiner, token: str) -> None:
    response = joiner.post("heartbeat", joiner.heartbeat(), token.encode().decode("latin-1"))
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert joiner.row.last_heartbeat_at is None


def test_expired_token_and_one_of_an_earlier_epoch_are_401(joiner: Joiner) -> None:
    AccessToken.objects.update(expires_at=timezone.now())
    assert joiner.beat().status_code == 401
    AccessToken.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    Agent.objects.update(cred_epoch=2)
    assert joiner.beat().status_code == 401


@pytest.mark.parametrize("state", ["pending", "locked", "denied", "revoked"])
def test_agent_that_is_not_active_is_403_and_not_believed(joiner: Joiner, state: str) -> None:
    give(joiner)
    Agent.objects.update(state=state)
    response = joiner.beat(inventory=inventory())
    assert response.status_code == 403
    assert response.json()["type"] == f"urn:kvfabric:problem:agent-{state}"
    assert joiner.row.last_heartbeat_at is None
    assert not Host.objects.exists()


# --- what it should run ----------------------------------------------------------------------------------------------


def test_newer_policy_comes_down_signed_for_this_agent_until_it_runs(joiner: Joiner) -> None:
    generation = give(joiner)
    for _ in range(2):
        envelope = Envelope.model_validate(joiner.beat().json()["desired"])
        desired = envelope.open_desired(
            keys=control_plane_keys(), audience=joiner.agent_id, now_s=timezone.now().timestamp()
        )
        assert (desired.generation, desired.digest, desired.document) == (generation, POLICY.digest(), POLICY.as_dict())
    joiner.observed_generation, joiner.applied_digest = generation, POLICY.digest()
    assert joiner.beat().json()["desired"] is None
    assert sync_state(joiner.row, timezone.now()) == "in_sync"


def test_refusal_that_the_agent_reports_makes_it_failed_until_it_runs(joiner: Joiner) -> None:
    give(joiner)
    condition = {"type": "policy_refused", "status": "true", "reason": "refused", "message": "no flash", "since_s": 1.0}
    joiner.beat(status={"conditions": [condition]})
    agent = joiner.row
    assert agent.apply_problems[0]["problem"] == "no flash"
    assert sync_state(agent, timezone.now()) == "failed"
    generation = give(joiner)
    assert sync_state(joiner.row, timezone.now()) == "progressing"
    joiner.beat(status={"observed_generation": generation, "applied_digest": POLICY.digest()})
    assert joiner.row.apply_problems == []


def test_late_report_of_the_same_process_does_not_undo_a_newer_answer(joiner: Joiner) -> None:
    joiner.beat()
    Agent.objects.update(observed_generation=5, applied_digest=POLICY.digest())
    joiner.beat(status={"observed_generation": 4})
    assert (joiner.row.observed_generation, joiner.row.applied_digest) == (5, POLICY.digest())
    joiner.boot_id, joiner.seq = "boot-2", 0
    joiner.beat(status={"observed_generation": 4})
    assert joiner.row.observed_generation == 4, "a restarted agent says what it found on its disk"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"seq": 1 << 63}, "seq"),
        ({"seq": 0}, "seq"),
        ({"seq": -1}, "seq"),
        ({"seq": 1.5}, "seq"),
        ({"status": {"observed_generation": (1 << 53) + 1}}, "status.observed_generation"),
        ({"status": {"observed_generation": -1}}, "status.observed_generation"),
        ({"status": {"applied_digest": "sha256:x"}}, "status.applied_digest"),
        ({"status": {"boot_id": "x" * 256}}, "status.boot_id"),
        ({"agent_time_s": "now"}, "agent_time_s"),
        ({"extra": 1}, "extra"),
        ({"inventory": {}}, "inventory.source"),
    ],
)
def test_report_that_cannot_be_true_is_422_and_stores_nothing(
    joiner: Joiner, changes: dict[str, Any], field: str
) -> None:
    response = joiner.beat(**changes)
    assert response.status_code == 422, response.content
    assert response.json()["problems"][0]["field"] == field
    assert joiner.row.last_heartbeat_at is None


def test_poisoned_generation_cannot_stop_the_policies_of_others(joiner: Joiner) -> None:
    joiner.beat(status={"observed_generation": 1 << 53})
    assert give(joiner) == (1 << 53) + 1


# --- inventory -------------------------------------------------------------------------------------------------------


def test_inventory_becomes_the_agents_host(joiner: Joiner) -> None:
    joiner.beat(inventory=inventory())
    host = Host.objects.get()
    assert joiner.row.host == host
    assert host.source_detail == f"agent {joiner.row.name} via sysfs"
    assert Ssd.objects.get().host == host
    joiner.beat(inventory=inventory(block_devices=[]))
    assert Ssd.objects.get().life_cycle == LifeCycle.MISSING


def test_impossible_inventory_is_refused_and_the_rest_is_kept(joiner: Joiner) -> None:
    many = [{"name": f"d{n}"} for n in range(1025)]
    response = joiner.beat(inventory=inventory() | {"block_devices": many})
    assert response.status_code == 422
    assert joiner.row.heartbeat_seq == 1
    assert not Host.objects.exists()


# --- access tokens ---------------------------------------------------------------------------------------------------


def age(joiner: Joiner, hours: float) -> None:
    """Make the agent's current token older."""
    created = timezone.now() - timedelta(hours=hours)
    AccessToken.objects.update(created_at=created, expires_at=created + timedelta(hours=24))


def test_token_is_renewed_after_two_thirds_of_its_life(joiner: Joiner) -> None:
    age(joiner, 16)
    assert joiner.beat().json()["access_token"] is None
    age(joiner, 16.1)
    answer = joiner.beat().json()
    assert answer["access_token"].startswith("kva1_")
    assert answer["access_token_expires_s"] > timezone.now().timestamp() + 86_000


def test_old_token_lives_a_moment_longer_once_the_new_one_was_used(joiner: Joiner) -> None:
    age(joiner, 20)
    old, joiner.access_token = joiner.access_token, joiner.beat().json()["access_token"]
    assert joiner.beat().status_code == 200
    assert joiner.post("heartbeat", joiner.heartbeat(), old).status_code == 200, "one in flight may still carry it"
    expiries = sorted(AccessToken.objects.values_list("expires_at", flat=True))
    assert expiries[0] <= timezone.now() + timedelta(seconds=11)
    AccessToken.objects.filter(expires_at=expiries[0]).update(expires_at=timezone.now())
    assert joiner.post("heartbeat", joiner.heartbeat(), old).status_code == 401
    assert joiner.beat().status_code == 200


def test_renewals_that_are_lost_do_not_pile_up(joiner: Joiner) -> None:
    age(joiner, 20)
    given = {joiner.beat().json()["access_token"] for _ in range(5)}
    assert len(given) == 5
    assert AccessToken.objects.count() == 2
    assert joiner.beat().status_code == 200


def test_expired_tokens_and_nonces_are_thrown_away(joiner: Joiner) -> None:
    joiner.rejoin_request()
    age(joiner, 25)
    assert purge_expired() == (0, 1)
    Challenge.objects.update(expires_at=timezone.now())
    assert purge_expired() == (1, 0)


# --- a copied identity -----------------------------------------------------------------------------------------------


def test_two_processes_that_report_in_turn_are_locked(joiner: Joiner) -> None:
    joiner.beat()
    copy = Joiner(key=joiner.key, boot_id="boot-of-the-copy")
    copy.agent_id, copy.access_token, copy.join_seq = joiner.agent_id, joiner.access_token, 1
    assert copy.beat().status_code == 200
    assert joiner.beat().status_code == 200
    assert copy.beat().status_code == 200
    assert joiner.beat().json()["type"].endswith("agent-locked")
    assert joiner.row.state == AgentState.LOCKED
    assert copy.beat().json()["type"].endswith("agent-locked")
    assert "copied" in AuditEntry.objects.get(verb="lock").reason


def test_restarts_and_one_late_report_of_the_old_process_do_not_lock(joiner: Joiner) -> None:
    for boot in range(1, 6):
        late = joiner.heartbeat()
        joiner.boot_id, joiner.seq = f"boot-{boot + 1}", 0
        assert joiner.beat().status_code == 200
        assert joiner.post("heartbeat", late, joiner.access_token).status_code == 200
        assert joiner.beat().status_code == 200
    assert joiner.row.state == AgentState.ACTIVE
    assert joiner.row.boot_id == "boot-6"


def test_too_many_heartbeats_are_braked(joiner: Joiner, settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_api, "MIN_HEARTBEATS_PER_MINUTE", 5)
    settings.ENV = settings.ENV.model_copy(update={"heartbeat_interval_s": 60.0})
    assert [joiner.beat().status_code for _ in range(6)] == [200] * 5 + [429]
    assert Joiner(hostname="b").enroll().beat().status_code == 200


def test_heartbeat_costs_few_queries(joiner: Joiner, django_assert_max_num_queries) -> None:
    joiner.beat(inventory=inventory(), capabilities=CAPABILITIES)
    with django_assert_max_num_queries(8):
        joiner.beat()


def test_housekeeping_task_is_the_one_that_beat_calls(joiner: Joiner, settings) -> None:
    assert settings.CELERY_BEAT_SCHEDULE["agents.housekeeping"]["task"] == tasks.purge_expired.name
    age(joiner, 25)
    tasks.purge_expired()
    assert not AccessToken.objects.exists()
