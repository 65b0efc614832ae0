"""Pure rules of agents: what "in sync" means, when tokens are renewed, which trust states may follow which."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

JOIN_TOKEN_PREFIX: Final = "kvj1"  # noqa: S105
ACCESS_TOKEN_PREFIX: Final = "kva1"  # noqa: S105
MAX_GENERATION: Final = 1 << 53
"""No honest agent observes more; beyond it a desired generation could not grow for ever, nor be exact in every JSON
reader.
"""
ACCESS_TOKEN_LIFE: Final = timedelta(hours=24)
RENEW_AFTER: Final = 0.67
"""Share of an access token's life after which a heartbeat brings a new one."""
CHALLENGE_LIFE: Final = timedelta(seconds=60)
MAX_REJOINS_PER_DAY: Final = 3
"""Recoveries of one agent in 24 h; more look like a stolen key or a broken disk, and wait for a person."""
JOIN_TOKEN_LIFE: Final = timedelta(hours=1)
MAX_JOIN_TOKEN_LIFE: Final = timedelta(hours=24)
MAX_JOIN_TOKEN_USES: Final = 1000
CLOCK_SKEW_LIMIT_S: Final = 60.0
"""A larger offset is shown as a condition; it is never a reason to refuse an agent."""


class SyncState(StrEnum):
    """What an agent runs against what it should run. Only `in_sync` means that all three of these hold: generation,
    digest, fresh.
    """

    IN_SYNC = "in_sync"
    PROGRESSING = "progressing"
    DRIFTED = "drifted"
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Observation:
    """The facts of an agent that decide on its sync state."""

    active: bool
    desired_generation: int
    desired_digest: str
    observed_generation: int
    applied_digest: str
    refused: bool
    last_heartbeat_at: datetime | None


def sync_state_of(seen: Observation, now: datetime, stale_after_s: float) -> SyncState:
    """Return the sync state. The last known good never counts once the heartbeat is older than `stale_after_s`."""
    if not seen.active or seen.last_heartbeat_at is None:
        return SyncState.UNKNOWN
    if (now - seen.last_heartbeat_at).total_seconds() > stale_after_s:
        return SyncState.UNREACHABLE
    if seen.desired_generation == 0:
        return SyncState.UNKNOWN
    if seen.observed_generation == seen.desired_generation:
        return SyncState.IN_SYNC if seen.applied_digest == seen.desired_digest else SyncState.DRIFTED
    if seen.observed_generation > seen.desired_generation:
        return SyncState.DRIFTED
    return SyncState.FAILED if seen.refused else SyncState.PROGRESSING


class TrustVerb(StrEnum):
    """What a person may do about the trust in an agent."""

    APPROVE = "approve"
    UNLOCK = "unlock"
    REVOKE = "revoke"


TRUST_TRANSITIONS: Final[Mapping[str, Mapping[TrustVerb, str]]] = {
    "pending": {TrustVerb.APPROVE: "active", TrustVerb.REVOKE: "revoked"},
    "active": {TrustVerb.REVOKE: "revoked"},
    "locked": {TrustVerb.UNLOCK: "active", TrustVerb.REVOKE: "revoked"},
    "denied": {TrustVerb.APPROVE: "active", TrustVerb.REVOKE: "revoked"},
    "revoked": {},
}
"""Trust state → verb → next state. Nothing leads out of `revoked`: the machine enrols again under a new identity."""


def renewal_due(created_at: datetime, expires_at: datetime, now: datetime) -> bool:
    """Tell whether an access token has lived long enough to be replaced by the next heartbeat."""
    return now >= created_at + (expires_at - created_at) * RENEW_AFTER
