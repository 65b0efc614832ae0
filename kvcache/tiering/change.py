"""One call's worth of decisions: making room, admitting, promoting, demoting, dropping, with the moves in order."""

import math
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from kvcache.tiering.block import NEVER, Block, Copy, TierState
from kvcache.tiering.deadlines import Deadlines
from kvcache.tiering.moves import Move, Reason, Tier

DRAIN_STEP = 64
"""Most victims that one block takes along beyond those it needs, while a tier drains down to its low watermark."""
MAX_VICTIMS = 4096
"""Most victims that one block may cost; a block that would cost more is refused."""


@dataclass(slots=True)
class Shelves:
    """All state of a tiered cache: its blocks and its two tiers."""

    dram: TierState
    flash: TierState
    keep_on_promote: bool
    blocks: dict[bytes, Block] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    untimed: bool = False

    def __post_init__(self) -> None:
        self.note_lifetimes()

    def note_lifetimes(self) -> None:
        """Note whether no tier limits the life of an unused copy: then most questions about time need no look."""
        self.untimed = self.dram.ttl_s == NEVER and self.flash.ttl_s == NEVER

    def copy_in(self, block: Block, tier: TierState) -> Copy | None:
        """Return the block's copy in that tier, if it has one."""
        return block.dram if tier is self.dram else block.flash

    def earliest_deadline_s(self, block: Block) -> float:
        """Return the first moment at which something of this block may expire."""
        earliest = block.expires_at_s
        for tier in (self.dram, self.flash):
            copy = self.copy_in(block, tier)
            if copy is not None and tier.ttl_s != NEVER:
                earliest = min(earliest, -math.inf if copy.used_s is None else tier.deadline_s(copy))
        return earliest

    def watch(self, key: bytes, block: Block) -> None:
        """Make sure that the block is looked at when something of it may expire."""
        if self.untimed and block.expires_at_s == NEVER:
            return
        earliest = self.earliest_deadline_s(block)
        if earliest != NEVER:
            self.deadlines.watch(key, earliest)

    def live_tier(self, block: Block, now_s: float) -> Tier | None:
        """Return the upper tier in which the block has a copy that is not expired. Changes nothing."""
        if self.untimed and block.expires_at_s == NEVER:
            return Tier.FLASH if block.dram is None else Tier.DRAM
        if block.expires_at_s <= now_s:
            return None
        if block.dram is not None and self.dram.deadline_s(block.dram) > now_s:
            return Tier.DRAM
        if block.flash is not None and self.flash.deadline_s(block.flash) > now_s:
            return Tier.FLASH
        return None

    def put(self, key: bytes, block: Block, tier: TierState, used_s: float | None) -> None:
        """Give the block a copy in that tier (room was made before)."""
        copy = Copy(used_s)
        if tier is self.dram:
            block.dram = copy
        else:
            block.flash = copy
        tier.order.insert(key)
        tier.used_bytes += block.size_bytes
        tier.blocks += 1
        self.watch(key, block)

    def take(self, key: bytes, block: Block, tier: TierState) -> None:
        """Take the block's copy out of that tier; the block itself stays known."""
        if tier is self.dram:
            block.dram = None
        else:
            block.flash = None
        tier.order.remove(key)
        tier.used_bytes -= block.size_bytes
        tier.blocks -= 1

    def forget_if_gone(self, key: bytes, block: Block) -> None:
        """Forget a block that has no copy left."""
        if block.dram is None and block.flash is None:
            del self.blocks[key]
            self.deadlines.forget(key)


class Change:
    """The decisions of one request. `protected` keys are never victims; `moves` grows in the order to carry out."""

    def __init__(self, shelves: Shelves, now_s: float, protected: AbstractSet[bytes] = frozenset()) -> None:
        self.moves: list[Move] = []
        self._shelves = shelves
        self._now_s = now_s
        self._protected = protected
        self._candidates: dict[Tier, Iterator[bytes]] = {}
        self._protected_bytes: dict[Tier, int] = {}

    def make_room(self, tier: TierState, size_bytes: int, *, max_victims: int = MAX_VICTIMS) -> bool:
        """Evict until `size_bytes` more fit into `tier`, or change nothing and return False when they cannot.

        Under one policy a tier above its high watermark goes on down to the low one, at most `DRAIN_STEP` victims at
        a time. A tier that a smaller policy left over its limit gives up as little per block, and may refuse.
        """
        limits = tier.limits
        if tier.used_bytes + size_bytes <= limits.high_bytes and not tier.draining:
            return True
        if not self.can_make_room(tier, size_bytes):
            return False
        if tier.is_over():
            max_victims = min(max_victims, DRAIN_STEP)
        goal = limits.low_bytes if size_bytes <= limits.low_bytes else limits.high_bytes
        tier.draining = True
        needed = spare = 0
        while tier.used_bytes + size_bytes > goal:
            if tier.used_bytes + size_bytes > limits.high_bytes:
                needed += 1
            else:
                spare += 1
            if needed > max_victims or spare > DRAIN_STEP or not self.evict_one(tier, Reason.EVICT):
                break
        else:
            tier.draining = False
        return tier.used_bytes + size_bytes <= limits.high_bytes

    def can_make_room(self, tier: TierState, size_bytes: int) -> bool:
        """Tell whether `size_bytes` fit once everything that is not protected is gone."""
        return tier.could_hold(size_bytes) and self._bytes_protected_in(tier) + size_bytes <= tier.limits.high_bytes

    def evict_one(self, tier: TierState, reason: Reason) -> bool:
        """Move the next victim of `tier` out, down to flash where it may go. False when no victim is left."""
        if tier.name not in self._candidates:
            self._candidates[tier.name] = tier.order.candidates(self._protected)
        key = next(self._candidates[tier.name], None)
        if key is None:
            del self._candidates[tier.name]
            return False
        block = self._shelves.blocks[key]
        if self._shelves.live_tier(block, self._now_s) is None:
            self.drop(key, Reason.EXPIRE)
        elif tier is self._shelves.flash or not self._demote(key, block, reason):
            self.drop_copy(key, block, tier, reason)
        return True

    def admit(self, key: bytes, block: Block, tier: TierState) -> bool:
        """Write a new block to `tier` if room can be made for it."""
        if not self.make_room(tier, block.size_bytes):
            return False
        self._shelves.blocks[key] = block
        self._put(key, block, tier)
        self.moves.append(Move(key, None, tier.name, block.size_bytes, Reason.ADMIT))
        return True

    def promote(self, key: bytes) -> bool:
        """Copy a block up from flash, unless no room can be made or DRAM still has to shrink.

        Where the policy keeps no flash copy the two places are swapped: the block leaves flash before the victims
        come down, else a full flash would drop a block for each one that goes up.
        """
        shelves = self._shelves
        block, dram, flash = shelves.blocks[key], shelves.dram, shelves.flash
        if dram.is_over() or not self.can_make_room(dram, block.size_bytes):
            return False
        up = Move(key, Tier.FLASH, Tier.DRAM, block.size_bytes, Reason.PROMOTE)
        if shelves.keep_on_promote:
            if not self.make_room(dram, block.size_bytes):
                return False
            self.moves.append(up)
        else:
            self.moves.append(up)
            self.drop_copy(key, block, flash, Reason.PROMOTE, stays_known=True)
            self.make_room(dram, block.size_bytes, max_victims=dram.blocks)
        self._put(key, block, dram)
        return True

    def drop(self, key: bytes, reason: Reason) -> None:
        """Drop every copy of a block."""
        block = self._shelves.blocks[key]
        for tier in (self._shelves.dram, self._shelves.flash):
            if self._shelves.copy_in(block, tier) is not None:
                self.drop_copy(key, block, tier, reason)

    def drop_copy(
        self, key: bytes, block: Block, tier: TierState, reason: Reason, *, stays_known: bool = False
    ) -> None:
        """Drop one copy, and the block with its last copy unless it `stays_known` to get another one."""
        if tier.name in self._protected_bytes and key in self._protected:
            self._protected_bytes[tier.name] -= block.size_bytes
        self._shelves.take(key, block, tier)
        self.moves.append(Move(key, tier.name, None, block.size_bytes, reason))
        if not stays_known:
            self._shelves.forget_if_gone(key, block)

    def drop_expired(self, key: bytes) -> None:
        """Drop whatever of this block is past its time: all of it, or the copy that nobody used in its tier."""
        shelves = self._shelves
        block = shelves.blocks[key]
        if shelves.live_tier(block, self._now_s) is None:
            self.drop(key, Reason.EXPIRE)
            return
        for tier in (shelves.dram, shelves.flash):
            copy = shelves.copy_in(block, tier)
            if copy is not None and tier.deadline_s(copy) <= self._now_s:
                self.drop_copy(key, block, tier, Reason.EXPIRE)

    def _demote(self, key: bytes, block: Block, reason: Reason) -> bool:
        """Move a victim of DRAM down, or drop it where flash is full of protected keys; False when flash has it."""
        dram, flash = self._shelves.dram, self._shelves.flash
        if block.flash is not None or dram.deadline_s(block.dram or Copy(None)) <= self._now_s:
            return False
        # Out of DRAM first, so that making room in flash never meets a block between two tiers.
        self._shelves.take(key, block, dram)
        if not self.make_room(flash, block.size_bytes):
            self.moves.append(Move(key, Tier.DRAM, None, block.size_bytes, reason))
            self._shelves.forget_if_gone(key, block)
            return True
        self._put(key, block, flash)
        self.moves.append(Move(key, Tier.DRAM, Tier.FLASH, block.size_bytes, Reason.DEMOTE))
        return True

    def _put(self, key: bytes, block: Block, tier: TierState) -> None:
        self._shelves.put(key, block, tier, self._now_s)
        if tier.name in self._protected_bytes and key in self._protected:
            self._protected_bytes[tier.name] += block.size_bytes

    def _bytes_protected_in(self, tier: TierState) -> int:
        """Sum what the protected keys hold in `tier`: counted once a call, kept up with from then on."""
        known = self._protected_bytes.get(tier.name)
        if known is None:
            blocks = (self._shelves.blocks.get(key) for key in self._protected)
            known = sum(
                block.size_bytes for block in blocks if block and self._shelves.copy_in(block, tier) is not None
            )
            self._protected_bytes[tier.name] = known
        return known
