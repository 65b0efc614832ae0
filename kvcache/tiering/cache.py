"""A cache of DRAM over flash that decides and never touches bytes."""

from collections.abc import Iterable, Iterator, Sequence

from kvcache.policy import ResolvedPolicy
from kvcache.tiering.block import NEVER, Block, TierState
from kvcache.tiering.change import Change, Shelves
from kvcache.tiering.moves import Insert, Lookup, Move, Reason, Tier, Usage
from kvcache.tiering.requests import RequestMemory


class TieredCache:
    """Which blocks to keep, where, and what to move for it. Single-threaded; time comes in as `now_s` (any clock).

    Every call with several keys is one request, head first: what was there before the call decides hits, present keys
    are touched tail first (the tail becomes the oldest of the request), missing keys are written head first until no
    victim is left, and no key of a request is a victim of that request. `lookup` of all keys followed by `insert` of
    the missing ones is one request too, however many others came between.

    New blocks go to DRAM; what DRAM evicts goes down to flash unless flash has it; a hit in flash goes up to DRAM.
    A tier of 0 bytes is skipped, and so is one too small for the block.
    """

    def __init__(self, policy: ResolvedPolicy) -> None:
        self._policy = policy
        self._shelves = Shelves(
            dram=TierState(Tier.DRAM, policy.dram),
            flash=TierState(Tier.FLASH, policy.flash),
            keep_on_promote=policy.keep_on_promote,
        )
        self._requests = RequestMemory()
        self._now_s = 0.0

    @property
    def policy(self) -> ResolvedPolicy:
        """The policy that new decisions follow."""
        return self._policy

    # --- questions: no side effect -----------------------------------------------------------------------------------

    def locate(self, key: bytes, now_s: float) -> Tier | None:
        """Return the upper tier that holds a copy of `key`; None when there is none or it is expired."""
        block = self._shelves.blocks.get(key)
        return None if block is None else self._shelves.live_tier(block, now_s)

    def size_of(self, key: bytes) -> int | None:
        """Return the bytes charged for `key` per copy, None when it is unknown."""
        block = self._shelves.blocks.get(key)
        return None if block is None else block.size_bytes

    def copies_of(self, key: bytes) -> tuple[Tier, ...]:
        """Return every tier that holds a copy of `key`, expired or not, DRAM first."""
        block = self._shelves.blocks.get(key)
        if block is None:
            return ()
        return tuple(
            tier.name for tier in (self._shelves.dram, self._shelves.flash) if self._shelves.copy_in(block, tier)
        )

    def expires_at(self, key: bytes) -> float | None:
        """Return when `key` expires by the wish of its writer, None when never or unknown.

        The policy's `ttl_s` is not in it: that one runs from the last use in a tier, as eviction does.
        """
        block = self._shelves.blocks.get(key)
        return None if block is None or block.expires_at_s == NEVER else block.expires_at_s

    def usage(self, tier: Tier) -> Usage:
        """Return what `tier` holds now, expired copies included until they are dropped."""
        state = self._state(tier)
        return Usage(state.used_bytes, state.blocks)

    def is_over(self) -> bool:
        """Tell whether `shrink` has work to do."""
        return self._shelves.dram.is_over() or self._shelves.flash.is_over()

    def keys(self) -> Iterator[bytes]:
        """Return all known keys as they are now; later changes do not disturb the iterator."""
        return iter(tuple(self._shelves.blocks))

    def __len__(self) -> int:
        return len(self._shelves.blocks)

    # --- requests ----------------------------------------------------------------------------------------------------

    def lookup(self, keys: Iterable[bytes], now_s: float) -> Lookup:
        """Look up one request: where each key is, how many lead without a gap, and the promotions that follow."""
        asked = tuple(keys)
        self._now_s = now_s
        unique = tuple(dict.fromkeys(asked))
        change = Change(self._shelves, now_s, frozenset(unique))
        found = {key: self._live_or_dropped(key, change) for key in unique}
        tiers = [found[key] for key in asked]
        for key in self._touch_all(unique, found):
            if not change.promote(key):
                self._shelves.dram.order.forget(key)
        missing = [key for key in unique if found[key] is None]
        if missing:
            for key in self._requests.open(unique, missing):
                self._forget_places(key)
        return Lookup(tiers, tiers.index(None) if missing else len(tiers), change.moves)

    def insert(
        self,
        items: Iterable[tuple[bytes, int]],
        now_s: float,
        ttl_s: float | None = None,
        protect: Iterable[bytes] = (),
    ) -> Insert:
        """Write the blocks of one request, (key, size in bytes) head first; they expire after `ttl_s` if given.

        A key that is there is written anew: its old copies are dropped first, whether or not the new one is admitted.
        Of a key given twice the last size counts. A size of 0 is charged as 1 byte. A block larger than every tier is
        refused alone; once no victim is left the rest of the request is refused.

        Raises:
            ValueError: a negative size, or a `ttl_s` that is not above 0. Nothing has changed then.
        """
        listed = list(items)
        sizes = {key: _checked_size(size) for key, size in listed}
        if ttl_s is not None and not ttl_s > 0:
            raise ValueError(f"ttl_s is {ttl_s}; give more than 0 seconds or None")
        self._now_s = now_s
        protected = sizes.keys() | set(protect)
        for key in sizes:
            protected.update(self._requests.keys_asked_with(key))
        change = Change(self._shelves, now_s, protected)
        admitted = self._admit_all(sizes, NEVER if ttl_s is None else now_s + ttl_s, change)
        return Insert([key in admitted for key, _ in listed], change.moves)

    def touch(self, keys: Iterable[bytes], now_s: float) -> int:
        """Note a use of the keys that are there, tail first; return how many were. Nothing is promoted."""
        self._now_s = now_s
        unique = tuple(dict.fromkeys(keys))
        present = [key for key in unique if self.locate(key, now_s) is not None]
        for key in reversed(present):
            self._touch(key)
        return len(present)

    def remove(self, keys: Iterable[bytes]) -> list[Move]:
        """Delete keys with all their copies; unknown keys are passed over."""
        change = Change(self._shelves, self._now_s)
        for key in keys:
            if key in self._shelves.blocks:
                change.drop(key, Reason.DELETE)
        return change.moves

    # --- time and policy ---------------------------------------------------------------------------------------------

    def set_expiry(self, key: bytes, at_s: float | None) -> bool:
        """Let `key` expire at `at_s`, or no more with None; False when it is unknown or expired."""
        block = self._shelves.blocks.get(key)
        if block is None or self._shelves.live_tier(block, self._now_s) is None:
            return False
        block.expires_at_s = NEVER if at_s is None else at_s
        self._shelves.watch(key, block)
        return True

    def expire(self, now_s: float, limit: int) -> list[Move]:
        """Drop what is past its time, of at most `limit` keys; bounded work, so call it regularly.

        Between calls an expired copy still takes room, but no question and no lookup sees it.
        """
        self._now_s = now_s
        change = Change(self._shelves, now_s)
        dropped = 0
        for _ in range(8 * limit):  # a key used since its deadline was noted is only looked at and noted again
            key = self._shelves.deadlines.pop_due(now_s) if dropped < limit else None
            if key is None:
                break
            block = self._shelves.blocks[key]
            for copy in (block.dram, block.flash):
                if copy is not None and copy.used_s is None:  # restored: its time begins with the first clock seen
                    copy.used_s = now_s
            before = len(change.moves)
            change.drop_expired(key)
            dropped += len(change.moves) > before
            if key in self._shelves.blocks:
                self._shelves.watch(key, block)
        return change.moves

    def apply(self, policy: ResolvedPolicy) -> None:
        """Follow `policy` from now on. Moves nothing: `shrink` brings a tier that is now too large down in steps."""
        shelves = self._shelves
        lifetimes = (shelves.dram.ttl_s, shelves.flash.ttl_s)
        self._policy = policy
        shelves.keep_on_promote = policy.keep_on_promote
        shelves.dram.apply(policy.dram)
        shelves.flash.apply(policy.flash)
        shelves.note_lifetimes()
        if (shelves.dram.ttl_s, shelves.flash.ttl_s) != lifetimes:
            for key, block in shelves.blocks.items():
                shelves.watch(key, block)

    def shrink(self, limit: int) -> list[Move]:
        """Bring tiers that are over their policy down by at most `limit` victims; empty when nothing is over.

        Flash goes first, so that what DRAM gives up afterwards finds room there.
        """
        change = Change(self._shelves, self._now_s)
        victims = 0
        for tier in (self._shelves.flash, self._shelves.dram):
            while victims < limit and tier.is_over() and change.evict_one(tier, Reason.SHRINK):
                victims += 1
        return change.moves

    def restore(
        self, key: bytes, size_bytes: int, tier: Tier, expires_at: float | None = None, now_s: float | None = None
    ) -> None:
        """Put back a copy that survived a restart, oldest first; limits are not looked at, `shrink` sees to them.

        The time since its last use runs from `now_s`, or from the first `expire` when that is not given.

        Raises:
            ValueError: the copy is there already, or a copy of another size is.
        """
        shelves, state = self._shelves, self._state(tier)
        size = _checked_size(size_bytes)
        block = shelves.blocks.get(key)
        if block is not None and (block.size_bytes != size or shelves.copy_in(block, state) is not None):
            raise ValueError(f"key {key!r} is there already with {block.size_bytes} bytes")
        if block is None:
            block = shelves.blocks[key] = Block(size, NEVER if expires_at is None else expires_at)
        shelves.put(key, block, state, now_s)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _state(self, tier: Tier) -> TierState:
        return self._shelves.dram if tier is Tier.DRAM else self._shelves.flash

    def _live_or_dropped(self, key: bytes, change: Change) -> Tier | None:
        """Return where `key` is, after dropping whatever of it is expired."""
        block = self._shelves.blocks.get(key)
        if block is None:
            return None
        if self._shelves.untimed and block.expires_at_s == NEVER:
            return Tier.FLASH if block.dram is None else Tier.DRAM
        if self._shelves.earliest_deadline_s(block) <= self._now_s:
            change.drop_expired(key)
        return self._shelves.live_tier(block, self._now_s)

    def _touch(self, key: bytes) -> None:
        block = self._shelves.blocks[key]
        for tier in (self._shelves.dram, self._shelves.flash):
            copy = self._shelves.copy_in(block, tier)
            if copy is not None:
                copy.used_s = self._now_s
                tier.order.touch(key)

    def _touch_all(self, keys: Sequence[bytes], found: dict[bytes, Tier | None]) -> list[bytes]:
        """Touch present keys and reserve places for missing ones, tail first; return what to promote, head first."""
        shelves = self._shelves
        top = shelves.dram if shelves.dram.could_hold(1) else shelves.flash
        promotions = []
        for key in reversed(keys):
            tier = found[key]
            if tier is None:
                top.order.reserve(key)
                continue
            self._touch(key)
            copy = shelves.blocks[key].flash
            if tier is Tier.FLASH and copy is not None:
                copy.hits += 1
                if copy.hits >= self._policy.promote_after_hits and top is shelves.dram:
                    top.order.reserve(key)
                    promotions.append(key)
        promotions.reverse()
        return promotions

    def _admit_all(self, sizes: dict[bytes, int], expires_at_s: float, change: Change) -> set[bytes]:
        """Write each block to the upper tier that can hold it; return the keys that are kept."""
        shelves = self._shelves
        for key in sizes:
            if key in shelves.blocks:
                block = shelves.blocks[key]
                expired = shelves.live_tier(block, self._now_s) is None
                change.drop(key, Reason.EXPIRE if expired else Reason.REPLACE)
        targets = {
            key: next((tier for tier in (shelves.dram, shelves.flash) if tier.could_hold(size)), None)
            for key, size in sizes.items()
        }
        for key, target in reversed(targets.items()):
            if target is not None:
                target.order.reserve(key, keep_place=True)
        admitted: set[bytes] = set()
        full: set[Tier] = set()
        for key, target in targets.items():
            if target is not None and target.name not in full:
                if change.admit(key, Block(sizes[key], expires_at_s), target):
                    admitted.add(key)
                else:
                    full.add(target.name)
            self._requests.settle(key)
            self._forget_places(key)
        return admitted

    def _forget_places(self, key: bytes) -> None:
        self._shelves.dram.order.forget(key)
        self._shelves.flash.order.forget(key)


def _checked_size(size_bytes: int) -> int:
    """Return the bytes to charge: at least one, so that empty values cannot fill memory uncounted."""
    if size_bytes < 0:
        raise ValueError(f"a block of {size_bytes} bytes: give 0 or more")
    return max(size_bytes, 1)
