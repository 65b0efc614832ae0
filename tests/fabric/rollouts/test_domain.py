"""The tables and the pure rules."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fabric.rollouts.domain import (
    ENDED_TARGET,
    GRACE_S,
    OPEN_ROLLOUT,
    OPEN_TARGET,
    TRANSITIONS,
    UNBLOCKS,
    ReasonCode,
    RolloutState,
    TargetFacts,
    TargetState,
    allowed_verbs,
    backoff_s,
    outcome,
    target_reason,
)

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
FACTS = TargetFacts(
    target="t",
    agent="a",
    agent_id="i",
    state=TargetState.PENDING,
    attempts=0,
    waiting_since=NOW,
    applied_at=None,
    last_heartbeat_at=NOW,
    stale=False,
    observed_generation=0,
    agent_state="active",
    reason_code="",
    reason="",
    reason_since=None,
)


def test_every_state_has_its_row_and_only_open_states_can_be_stopped() -> None:
    assert set(TRANSITIONS) == set(RolloutState)
    for state, steps in TRANSITIONS.items():
        assert ("abort" in steps) == (state in OPEN_ROLLOUT)
        assert allowed_verbs(state) == list(steps)


def test_target_states_are_open_or_ended() -> None:
    assert set(TargetState) == OPEN_TARGET | ENDED_TARGET
    assert not OPEN_TARGET & ENDED_TARGET


def test_every_reason_says_what_unblocks_it() -> None:
    assert set(UNBLOCKS) == set(ReasonCode)
    assert all(text.endswith(".") for text in UNBLOCKS.values())


@pytest.mark.parametrize(
    ("states", "end"),
    [
        ("in_sync in_sync", "succeeded"),
        ("in_sync applied", None),
        ("in_sync pending failed", None),
        ("in_sync refused", "failed"),
        ("in_sync failed cancelled", "failed"),
        ("in_sync cancelled superseded", "succeeded"),
        ("cancelled", "failed"),
        ("", "failed"),
    ],
)
def test_outcome_counts_every_agent_that_is_still_concerned(states: str, end: str | None) -> None:
    assert outcome([TargetState(state) for state in states.split()]) == end


def test_backoff_doubles_up_to_half_a_minute() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 5, 6, 30, 10**9)] == [1, 2, 4, 16, 30, 30, 30]


def test_target_that_moves_has_no_reason() -> None:
    assert target_reason(FACTS, NOW + timedelta(seconds=GRACE_S)) is None
    assert target_reason(replace(FACTS, state=TargetState.PUSHING, attempts=1), NOW + timedelta(hours=1)) is None
    assert target_reason(replace(FACTS, state=TargetState.IN_SYNC, stale=True), NOW) is None


@pytest.mark.parametrize(
    ("changes", "after_s", "code"),
    [
        ({}, GRACE_S + 1, "waiting_for_worker"),
        ({"stale": True}, 0, "unreachable"),
        ({"agent_state": "locked"}, 0, "agent_not_active"),
        ({"state": TargetState.APPLIED, "stale": True}, 0, "waiting_for_heartbeat"),
        ({"state": TargetState.APPLIED, "applied_at": NOW}, GRACE_S + 1, "waiting_for_heartbeat"),
        ({"reason_code": "refused", "state": TargetState.REFUSED}, 0, "refused"),
    ],
)
def test_target_that_does_not_move_says_why(changes: dict[str, object], after_s: float, code: str) -> None:
    reason = target_reason(replace(FACTS, **changes), NOW + timedelta(seconds=after_s))  # type: ignore[arg-type]
    assert reason
    assert reason.code == code
    assert reason.as_dict()["unblocks"] == UNBLOCKS[ReasonCode(code)]
    assert reason.as_dict()["since"] == NOW.isoformat()
