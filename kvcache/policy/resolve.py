"""From shares to bytes: what a policy means on an agent with given limits."""

import math
from dataclasses import dataclass
from fractions import Fraction

from kvcache.policy.document import EvictionName, PolicyDocument, TierPolicy
from kvcache.policy.problems import FieldProblem, PolicyError


@dataclass(frozen=True, slots=True)
class TierLimits:
    """What an agent can give each tier at most, in bytes."""

    dram_bytes: int
    flash_bytes: int

    def __post_init__(self) -> None:
        for name, value in (("dram_bytes", self.dram_bytes), ("flash_bytes", self.flash_bytes)):
            if value < 0:
                raise ValueError(f"{name} is {value}; a limit is at least 0 bytes")


@dataclass(frozen=True, slots=True)
class ResolvedTier:
    """One tier in plain numbers. Eviction starts above `high_bytes` and goes on down to `low_bytes`."""

    capacity_bytes: int
    high_bytes: int
    low_bytes: int
    eviction: EvictionName = "lru"
    ttl_s: float | None = None

    @classmethod
    def of_bytes(
        cls, capacity_bytes: int, eviction: EvictionName = "lru", ttl_s: float | None = None
    ) -> "ResolvedTier":
        """Return a tier that fills to the last byte (both watermarks at 1.0)."""
        return cls(capacity_bytes, capacity_bytes, capacity_bytes, eviction, ttl_s)


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """What `kvcache.tiering.TieredCache` runs on."""

    dram: ResolvedTier
    flash: ResolvedTier
    promote_after_hits: int = 1
    keep_on_promote: bool = True


def resolve(document: PolicyDocument, limits: TierLimits) -> ResolvedPolicy:
    """Return `document` in bytes for an agent with `limits`.

    Raises:
        PolicyError: a capacity in bytes is above the agent's limit for that tier.
    """
    tiers = document.tiers
    asked = (("dram", tiers.dram, limits.dram_bytes), ("flash", tiers.flash, limits.flash_bytes))
    problems = [
        FieldProblem(
            f"tiers.{name}.capacity.bytes",
            f"{tier.capacity.bytes} bytes are more than this agent's limit",
            f"give at most {limit} bytes, or a share",
        )
        for name, tier, limit in asked
        if (tier.capacity.bytes or 0) > limit
    ]
    if problems:
        raise PolicyError(problems)
    return ResolvedPolicy(
        dram=_resolve_tier(tiers.dram, limits.dram_bytes),
        flash=_resolve_tier(tiers.flash, limits.flash_bytes),
        promote_after_hits=tiers.flash.promote_after_hits,
        keep_on_promote=tiers.flash.keep_on_promote,
    )


def _resolve_tier(tier: TierPolicy, limit_bytes: int) -> ResolvedTier:
    capacity = tier.capacity
    size = capacity.bytes if capacity.bytes is not None else _part(capacity.share or 0.0, limit_bytes)
    return ResolvedTier(
        capacity_bytes=size,
        high_bytes=_part(tier.high_watermark, size),
        low_bytes=_part(tier.low_watermark, size),
        eviction=tier.eviction,
        ttl_s=tier.ttl_s,
    )


def _part(ratio: float, size_bytes: int) -> int:
    """Round down in exact arithmetic: a float product can exceed the whole above 2**53."""
    return math.floor(Fraction(ratio) * size_bytes)
