"""What agents should run: generations, digests, answers, and the sync state that follows."""

import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agent.protocol import ApplyReply, ApplyState, Envelope, FieldProblem
from fabric.agents.domain import Observation, SyncState, renewal_due, sync_state_of
from fabric.agents.models import Agent, SigningKey
from fabric.agents.selectors import (
    agents_for_overview,
    agents_in_pool,
    scrape_targets_for_agents,
    sync_state,
)
from fabric.agents.services import (
    active_signing_key,
    control_plane_keys,
    desired_envelope,
    mint_read_grant,
    record_apply_reply,
    set_desired,
)
from fabric.audit.models import AuditEntry
from fabric.core.actor import SYSTEM, Actor
from fabric.core.errors import Invalid
from fabric.pools.models import Pool
from kvcache.policy import default_policy

POLICY = default_policy()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def agent(name: str = "a", **columns: Any) -> Agent:
    """Return an active agent that was just heard."""
    facts = {
        "hostname": name,
        "agent_version": "1",
        "public_key": name,
        "manage_url": f"http://127.0.0.1:6401/{name}",
        "data_url": "redis://127.0.0.1:6400",
        "state": "active",
        "last_heartbeat_at": timezone.now(),
    }
    return Agent.objects.create(name=name, **(facts | columns))


def give(*agents: Agent, actor: Actor = SYSTEM) -> list[int]:
    """Give the default policy to agents; return their generations."""
    given = set_desired(
        actor=actor, agent_ids=[a.pk for a in agents], document=POLICY.as_dict(), digest=POLICY.digest()
    )
    return [given[a.pk] for a in agents]


@pytest.mark.django_db
def test_generation_grows_and_is_never_given_twice() -> None:
    one = agent()
    assert [give(one)[0] for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.django_db
def test_generation_stands_above_what_the_agent_has_already_seen() -> None:
    assert give(agent(desired_generation=3, observed_generation=40)) == [41]


@pytest.mark.django_db
def test_unknown_agents_are_left_out_and_known_ones_served() -> None:
    one, nobody = agent(), uuid.uuid4()
    given = set_desired(actor=SYSTEM, agent_ids=[nobody, one.pk], document=POLICY.as_dict(), digest=POLICY.digest())
    assert given == {one.pk: 1}
    assert set_desired(actor=SYSTEM, agent_ids=[], document=POLICY.as_dict(), digest=POLICY.digest()) == {}


@pytest.mark.django_db
@pytest.mark.parametrize("digest", ["", "sha256:" + "0" * 64, POLICY.digest().upper(), POLICY.digest() + "\n"])
def test_digest_of_another_document_is_refused_and_nothing_given(digest: str) -> None:
    one = agent()
    with pytest.raises(Invalid):
        set_desired(actor=SYSTEM, agent_ids=[one.pk], document=POLICY.as_dict(), digest=digest)
    one.refresh_from_db()
    assert (one.desired_generation, one.desired_document) == (0, {})


@pytest.mark.django_db
def test_each_agent_has_its_audit_row(operator: Actor) -> None:
    give(agent("a"), agent("b", desired_generation=7), actor=operator)
    rows = AuditEntry.objects.filter(verb="set_desired").order_by("object_label")
    assert [(r.object_label, r.before["desired_generation"], r.after["desired_generation"]) for r in rows] == [
        ("a", 0, 1),
        ("b", 7, 8),
    ]
    assert {r.actor_id for r in rows} == {operator.id}


@pytest.mark.django_db
def test_many_agents_cost_few_statements(django_assert_max_num_queries) -> None:
    agents = [agent(f"a{n}") for n in range(100)]
    with django_assert_max_num_queries(6):
        give(*agents)


# --- answers ---------------------------------------------------------------------------------------------------------


def answer(one: Agent, generation: int, **facts: Any) -> Agent:
    """Record an answer; return the agent as it then stands."""
    reply = ApplyReply(**({"state": ApplyState.APPLIED, "observed_generation": generation} | facts))
    record_apply_reply(agent_id=one.pk, generation=generation, reply=reply)
    one.refresh_from_db()
    return one


@pytest.mark.django_db
def test_applied_policy_is_in_sync_and_clears_old_problems() -> None:
    one = agent()
    give(one)
    one = answer(
        one, 1, state=ApplyState.REFUSED, observed_generation=0, problems=[FieldProblem(field="f", problem="p")]
    )
    assert (one.apply_problems[0]["field"], sync_state(one, timezone.now())) == ("f", SyncState.FAILED)
    one = answer(one, 1, applied_digest=POLICY.digest())
    assert (one.apply_problems, sync_state(one, timezone.now())) == ([], SyncState.IN_SYNC)


@pytest.mark.django_db
def test_refusal_without_reason_is_still_a_refusal() -> None:
    one = agent()
    give(one)
    assert answer(one, 1, state=ApplyState.REFUSED, observed_generation=0).apply_problems


@pytest.mark.django_db
def test_refusal_of_an_older_generation_does_not_taint_the_newer_one() -> None:
    one = agent()
    give(one)
    give(one)
    assert answer(one, 1, state=ApplyState.REFUSED, observed_generation=0).apply_problems == []


@pytest.mark.django_db
def test_late_answer_does_not_take_the_observed_generation_back() -> None:
    one = agent(observed_generation=9, applied_digest=POLICY.digest())
    one = answer(one, 5, applied_digest="sha256:" + "0" * 64)
    assert (one.observed_generation, one.applied_digest) == (9, POLICY.digest())


@pytest.mark.django_db
def test_answer_that_cannot_be_true_is_not_stored() -> None:
    assert answer(agent(), 1, observed_generation=1 << 60).observed_generation == 0


# --- sync state ------------------------------------------------------------------------------------------------------


def seen(**changes: Any) -> Observation:
    """Return an agent in sync, with changes."""
    facts = {
        "active": True,
        "desired_generation": 3,
        "desired_digest": "d",
        "observed_generation": 3,
        "applied_digest": "d",
        "refused": False,
        "last_heartbeat_at": NOW,
    }
    return Observation(**(facts | changes))


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, SyncState.IN_SYNC),
        ({"last_heartbeat_at": NOW - timedelta(seconds=8)}, SyncState.IN_SYNC),
        ({"last_heartbeat_at": NOW - timedelta(seconds=8.1)}, SyncState.UNREACHABLE),
        ({"last_heartbeat_at": None}, SyncState.UNKNOWN),
        ({"active": False}, SyncState.UNKNOWN),
        ({"applied_digest": "e"}, SyncState.DRIFTED),
        ({"applied_digest": ""}, SyncState.DRIFTED),
        ({"observed_generation": 4}, SyncState.DRIFTED),
        ({"observed_generation": 2}, SyncState.PROGRESSING),
        ({"observed_generation": 2, "refused": True}, SyncState.FAILED),
        ({"desired_generation": 0, "observed_generation": 0}, SyncState.UNKNOWN),
    ],
)
def test_sync_state(changes: dict[str, Any], state: SyncState) -> None:
    assert sync_state_of(seen(**changes), NOW, stale_after_s=8.0) is state


@given(
    st.booleans(),
    st.integers(0, 5),
    st.sampled_from(["", "d", "e"]),
    st.integers(0, 5),
    st.sampled_from(["", "d", "e"]),
    st.booleans(),
    st.one_of(st.none(), st.floats(-100, 100)),
)
def test_in_sync_means_generation_and_digest_and_freshness(
    active: bool, desired: int, wanted: str, observed: int, applied: str, refused: bool, age_s: float | None
) -> None:
    heard = None if age_s is None else NOW - timedelta(seconds=age_s)
    state = sync_state_of(Observation(active, desired, wanted, observed, applied, refused, heard), NOW, 8.0)
    all_hold = active and heard is not None and (NOW - heard).total_seconds() <= 8.0
    all_hold = all_hold and desired == observed > 0 and wanted == applied
    assert (state is SyncState.IN_SYNC) == all_hold


@pytest.mark.parametrize(("hours", "due"), [(0, False), (16, False), (16.08, True), (24, True), (99, True)])
def test_renewal_is_due_after_two_thirds(hours: float, due: bool) -> None:
    assert renewal_due(NOW, NOW + timedelta(hours=24), NOW + timedelta(hours=hours)) is due


# --- envelopes, grants, keys -----------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_envelope_opens_for_its_agent_with_the_pinned_key_only() -> None:
    one, other = agent("a"), agent("b")
    give(one)
    one.refresh_from_db()
    envelope, now_s = desired_envelope(one), time.time()
    opened = envelope.open_desired(keys=control_plane_keys(), audience=str(one.pk), now_s=now_s)
    assert (opened.generation, opened.digest, opened.document) == (1, POLICY.digest(), POLICY.as_dict())
    with pytest.raises(ValueError, match="meant for"):
        envelope.open_desired(keys=control_plane_keys(), audience=str(other.pk), now_s=now_s)
    assert desired_envelope(one).payload != envelope.payload, "each carries a nonce of its own"
    with pytest.raises(Invalid):
        desired_envelope(other)


@pytest.mark.django_db
def test_grant_opens_for_its_agent_lives_minutes_and_is_handed_out_again() -> None:
    one = agent()
    bearer = mint_read_grant(one)
    assert mint_read_grant(one) == bearer
    grant = Envelope.from_bearer(bearer).open_grant(keys=control_plane_keys(), audience=str(one.pk), now_s=time.time())
    assert 60 <= grant.exp_s - grant.iat_s <= 600
    cache.clear()
    assert mint_read_grant(one) != bearer
    assert mint_read_grant(agent("b")) != bearer


@pytest.mark.django_db
def test_grant_is_no_policy_and_a_policy_is_no_grant() -> None:
    one = agent()
    give(one)
    one.refresh_from_db()
    with pytest.raises(ValueError, match="not a desired"):
        Envelope.from_bearer(mint_read_grant(one)).open_desired(
            keys=control_plane_keys(), audience=str(one.pk), now_s=None
        )
    with pytest.raises(ValueError, match="not a grant"):
        desired_envelope(one).open_grant(keys=control_plane_keys(), audience=str(one.pk), now_s=time.time())


@pytest.mark.django_db
def test_private_key_is_encrypted_at_rest_and_bound_to_its_row() -> None:
    pair = active_signing_key()
    row = SigningKey.objects.get()
    raw = pair.private_key.private_bytes_raw()
    assert raw.hex() not in row.private_key_encrypted
    assert "private_key" not in repr(pair).replace("PrivateKey", "")
    SigningKey.objects.filter(pk=row.pk).update(kid="k9")
    with pytest.raises(ValueError, match="cannot be opened"):
        active_signing_key()


@pytest.mark.django_db
def test_oldest_active_key_signs_and_all_active_ones_are_pinned() -> None:
    first = active_signing_key()
    SigningKey.objects.create(kid="k0", public_key="A" * 43 + "=", private_key_encrypted="x")
    assert active_signing_key().kid == first.kid
    assert set(control_plane_keys()) == {"k1", "k0"}
    SigningKey.objects.filter(kid="k0").update(active=False)
    assert set(control_plane_keys()) == {"k1"}


# --- selectors -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_only_active_agents_are_reached_and_scraped(viewer: Actor) -> None:
    pool = Pool.objects.create(name="p")
    good = agent("a", pool=pool)
    for state in ("pending", "locked", "denied", "revoked"):
        agent(state, pool=pool, state=state)
    assert list(agents_in_pool(viewer, pool.pk)) == [good]
    (target,) = scrape_targets_for_agents()
    assert (target.agent_id, target.name, target.pool_id) == (good.pk, "a", pool.pk)
    assert target.metrics_url == "http://127.0.0.1:6401/a/metrics"
    assert mint_read_grant(target.agent).startswith("kvg1.")


@pytest.mark.django_db
def test_overview_shows_age_tiers_and_sync_in_one_query(viewer: Actor, django_assert_num_queries) -> None:
    tier = {"tier": "dram", "stored_bytes": 1, "stored_blocks": 2, "capacity_bytes": 3, "limit_bytes": 4}
    agent("a", status={"tiers": [tier]})
    agent("b", last_heartbeat_at=None)
    with django_assert_num_queries(1):
        first, second = agents_for_overview(viewer)
    assert first.age_s is not None
    assert first.age_s < 60
    assert first.tiers["dram"]["capacity_bytes"] == 3
    assert (second.age_s, second.sync, second.tiers) == (None, SyncState.UNKNOWN, {})
