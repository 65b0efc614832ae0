"""What is known of one block and of one tier."""

import math

from kvcache.eviction import EvictionOrder, make_order
from kvcache.policy import ResolvedTier
from kvcache.tiering.moves import Tier

NEVER = math.inf


class Copy:
    """One block's copy in one tier: when it was last written or used there, and how often since it was written.

    `used_s` is None after a restart until the clock is seen for the first time.
    """

    __slots__ = ("hits", "used_s")

    def __init__(self, used_s: float | None) -> None:
        self.used_s = used_s
        self.hits = 0


class Block:
    """One key: its size and its copies. `expires_at_s` is what its writer asked for; `NEVER` when nothing."""

    __slots__ = ("dram", "expires_at_s", "flash", "size_bytes")

    def __init__(self, size_bytes: int, expires_at_s: float) -> None:
        self.size_bytes = size_bytes
        self.expires_at_s = expires_at_s
        self.dram: Copy | None = None
        self.flash: Copy | None = None


class TierState:
    """One tier: its limits, its order of eviction, what it holds."""

    __slots__ = ("blocks", "draining", "limits", "name", "order", "ttl_s", "used_bytes")

    def __init__(self, name: Tier, limits: ResolvedTier) -> None:
        self.name = name
        self.limits = limits
        self.order: EvictionOrder = make_order(limits.eviction)
        self.ttl_s = NEVER if limits.ttl_s is None else limits.ttl_s
        self.used_bytes = 0
        self.blocks = 0
        self.draining = False

    def apply(self, limits: ResolvedTier) -> None:
        """Take new limits; another algorithm starts from the order that the old one had."""
        if limits.eviction != self.limits.eviction:
            order = make_order(limits.eviction)
            for key in self.order.oldest_first():
                order.insert(key)
            self.order = order
        self.limits = limits
        self.ttl_s = NEVER if limits.ttl_s is None else limits.ttl_s
        self.draining = False

    def could_hold(self, size_bytes: int) -> bool:
        """Tell whether a block of this size fits into this tier when it is empty."""
        return 0 < size_bytes <= self.limits.high_bytes

    def is_over(self) -> bool:
        """Tell whether the tier holds more than its policy allows, as after a policy that made it smaller."""
        return self.used_bytes > self.limits.high_bytes

    def deadline_s(self, copy: Copy) -> float:
        """Return the moment from which an unused copy counts as expired here."""
        return NEVER if copy.used_s is None else copy.used_s + self.ttl_s
