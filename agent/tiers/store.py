"""The store that the RESP commands use: `kvcache.tiering` decides in command order, `agent.tiers.mover` moves bytes."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from agent.engines.base import BlockEngine
from agent.engines.dram import MemoryPool, Value
from agent.engines.io_pool import IoPool
from agent.protocol import Condition
from agent.stats import Stats, StatsSnapshot, TierSnapshot
from agent.tiers.blocks import MISS, Barrier, BlockRead, Entry, Found, Tally
from agent.tiers.keeper import Keeper
from agent.tiers.mover import Mover
from kvcache.policy import ResolvedPolicy, TierLimits
from kvcache.tiering import Reason, Tier, TieredCache

logger = logging.getLogger("agent.tiers")


class Insertion(NamedTuple):
    """Outcome of a write: which items are kept, and what must be on the device before it is confirmed.

    `hopeless`: every item is larger than every tier that is on. Others that were not kept found no room beside the
    blocks of their own request, or the policy switched both tiers off: that is no error, a cache may forget.
    """

    admitted: list[bool]
    barrier: Barrier
    hopeless: bool = False


class WriteOptions(NamedTuple):
    """How a single block is written.

    `only_if_present`: only if the key is there (True) or is not (False). `want_old`: hand out what is replaced.
    """

    expires_at_s: float | None = None
    keep_expiry: bool = False
    only_if_present: bool | None = None
    want_old: bool = False


class Written(NamedTuple):
    """Outcome of such a write: `done` is False when its condition did not hold, `old` is what was there."""

    done: bool
    old: Found
    barrier: Barrier
    hopeless: bool = False


class TieredStore:
    """Blocks in DRAM over flash. Any thread may call anything; decisions are made one at a time, in call order."""

    def __init__(
        self,
        *,
        policy: ResolvedPolicy,
        limits: TierLimits,
        engine: BlockEngine[Any],
        pool: MemoryPool,
        io: IoPool,
        verify_dram: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.stats = Stats()
        self.pool = pool
        self._limits = limits
        self._engine = engine
        self._io = io
        self._verify = verify_dram
        self._clock = clock
        self._lock = threading.RLock()
        self._mover = Mover(TieredCache(policy), engine, pool, io, self.stats, self._lock)
        self._keeper = Keeper(self._mover, engine, pool, self._lock, policy, clock)

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self, threads: int, sweep_interval_s: float) -> int:
        """Take over what the device holds, oldest first, and start the background work; return the blocks found."""
        records = self._engine.recover(self._clock(), threads)
        with self._lock:
            for record in records:
                self._mover.adopt(record)
        self._keeper.start(sweep_interval_s)
        return len(records)

    def close(self) -> None:
        """End the background work and finish what is on its way to flash."""
        self._keeper.stop()
        self._mover.retry_starved()
        self._io.close()
        self._engine.close()

    # --- reading -----------------------------------------------------------------------------------------------------

    def lookup(self, keys: Sequence[bytes]) -> list[Found]:
        """Look up one request, head first, and count it."""
        found: list[Found] = []
        with self._lock:
            answer = self._cache.lookup(keys, self._clock())
            tally = Tally([tier or MISS for tier in answer.tiers])
            entries = self._mover.entries
            for index, tier in enumerate(answer.tiers):
                found.append(None if tier is None else self._bytes_of(entries[keys[index]], tally, index))
            if answer.moves:
                self._mover.apply(answer.moves)
            self._mover.tallies.open(tally, found)
            self._mover.watch(found)
        changed = [i for i, one in enumerate(found) if isinstance(one, Value) and self._verify and not one.intact()]
        with self._lock:
            for index in changed:
                self._lose(keys[index], found[index])
                found[index], tally.results[index] = None, MISS
            self._mover.tallies.count_found(tally, found)
        return found

    def abandon(self, read: BlockRead) -> None:
        """Note that nobody wants a block any more whose reading did not begin: it counts as the hit it was."""
        with self._lock:
            if not read.done and read.then is None:
                self._mover.tallies.abandon(read)

    def exists(self, keys: Iterable[bytes]) -> int:
        """Return how many of `keys` are there; a key named twice counts twice."""
        now_s = self._clock()
        with self._lock:
            return sum(self._cache.locate(key, now_s) is not None for key in keys)

    def size_of(self, key: bytes) -> int | None:
        """Return the bytes of a block, None when it is not there."""
        with self._lock:
            return self._mover.entries[key].size_bytes if self.exists([key]) else None

    def keys(self) -> list[bytes]:
        """Return every key that is there now."""
        with self._lock:
            return list(self._mover.entries)

    def __len__(self) -> int:
        return len(self._mover.entries)

    # --- writing -----------------------------------------------------------------------------------------------------

    def set_many(self, items: Sequence[tuple[bytes, Value]]) -> Insertion:
        """Write one request, head first; what was there under these keys is gone, kept or not."""
        with self._lock:
            return self._insert(items, self._clock())

    def set(self, key: bytes, value: Value, options: WriteOptions) -> Written:
        """Write one block as `options` say."""
        now_s = self._clock()
        with self._lock:
            present = self._cache.locate(key, now_s) is not None
            old = self._bytes_of(self._mover.entries[key], None, 0) if options.want_old and present else None
            if isinstance(old, BlockRead):
                self._mover.begin_at_once(old)
            if options.only_if_present is not None and present != options.only_if_present:
                return Written(False, old, Barrier())
            kept_s = self._cache.expires_at(key) if options.keep_expiry and present else None
            at_s = kept_s if options.keep_expiry else options.expires_at_s
            if at_s is not None and at_s <= now_s:
                return Written(True, old, self.delete([key])[1])
            insertion = self._insert([(key, value)], now_s)
            if at_s is not None and insertion.admitted[0]:
                self._cache.set_expiry(key, at_s)
            return Written(True, old, insertion.barrier, insertion.hopeless)

    def delete(self, keys: Sequence[bytes]) -> tuple[int, Barrier]:
        """Delete blocks; return how many were there, and what must be on the device before it is confirmed."""
        barrier = Barrier()
        with self._lock:
            count = self.exists(set(keys))
            self._mover.apply(self._cache.remove(keys), barrier=barrier)
            for key in keys:
                self._mover.eraser.erase_past(key, barrier)
        return count, barrier

    def flush(self) -> None:
        """Delete everything. Raises `OSError` when the device refuses; nothing has changed then."""
        with self._lock:
            self._engine.wipe()
            for tier in (Tier.DRAM, Tier.FLASH):
                usage = self._cache.usage(tier)
                self.stats.evicted_blocks[tier, Reason.DELETE] += usage.blocks
                self.stats.evicted_bytes[tier, Reason.DELETE] += usage.bytes
            self._mover.start_afresh(TieredCache(self._cache.policy))

    def _insert(self, items: Sequence[tuple[bytes, Value]], now_s: float) -> Insertion:
        barrier = Barrier()
        values = dict(items)
        answer = self._cache.insert([(key, value.size_bytes) for key, value in items], now_s)
        self._mover.apply(answer.moves, values, barrier)
        for key in values:
            self._mover.eraser.erase_past(key, barrier)
        stats, hopeless = self.stats, True
        for (_, value), kept in zip(items, answer.admitted, strict=True):
            if kept:
                stats.set_blocks += 1
                stats.set_bytes += value.size_bytes
            too_large = not kept and value.size_bytes > self._largest_bytes() > 0
            hopeless = hopeless and too_large
            if not kept:
                stats.set_refused["too_large" if too_large else "no_room"] += 1
        return Insertion(answer.admitted, barrier, hopeless)

    def _largest_bytes(self) -> int:
        policy = self._cache.policy
        return max(policy.dram.high_bytes, policy.flash.high_bytes)

    # --- age ---------------------------------------------------------------------------------------------------------

    def touch(self, keys: Sequence[bytes]) -> int:
        """Note a use of blocks without reading them; return how many were there."""
        with self._lock:
            self._cache.touch(keys, self._clock())
            return self.exists(keys)

    def expiry(self, key: bytes) -> tuple[bool, float | None]:
        """Tell whether a block is there, and when it expires (unix time, None: never)."""
        with self._lock:
            present = self.exists([key]) > 0
            return present, self._cache.expires_at(key) if present else None

    def set_expiry(self, key: bytes, at_s: float | None) -> tuple[bool, Barrier]:
        """Let a block expire at a unix time, at once if that is past, or never; False when it is not there."""
        with self._lock:
            if not self.exists([key]):
                return False, Barrier()
            if at_s is not None and at_s <= self._clock():
                return True, self.delete([key])[1]
            self._cache.set_expiry(key, at_s)
            barrier = Barrier()
            self._mover.rewrite_expiry(self._mover.entries[key], barrier)
            return True, barrier

    # --- policy and numbers ------------------------------------------------------------------------------------------

    def apply_policy(self, policy: ResolvedPolicy) -> None:
        """Obey `policy` from now on; space above a smaller capacity is given back in the background."""
        with self._lock:
            self._keeper.obey(policy)

    def tier_snapshots(self) -> tuple[TierSnapshot, ...]:
        """Return what each tier stores now."""
        with self._lock:
            policy = self._cache.policy
            rows = (
                (Tier.DRAM, policy.dram.capacity_bytes, self._limits.dram_bytes),
                (Tier.FLASH, policy.flash.capacity_bytes, self._limits.flash_bytes),
            )
            return tuple(
                TierSnapshot(tier, *self._cache.usage(tier), capacity_bytes=capacity, limit_bytes=limit)
                for tier, capacity, limit in rows
            )

    def conditions(self) -> tuple[Condition, ...]:
        """Return what an operator should know about the devices."""
        return self._keeper.conditions()

    def stats_snapshot(self) -> StatsSnapshot:
        """Return all counters and gauges at this moment."""
        with self._lock:
            return self.stats.snapshot(self.tier_snapshots())

    @property
    def pending_bytes(self) -> int:
        """Bytes that are on their way to flash; a kill loses them."""
        return self._mover.writing_bytes

    def memory_freed(self) -> None:
        """Go on with reads that waited for memory."""
        with self._lock:
            self._mover.feed()

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _cache(self) -> TieredCache:
        return self._mover.cache

    def _bytes_of(self, entry: Entry, tally: Tally | None, index: int) -> Found:
        return entry.value or BlockRead(entry, tally, index, self._mover.begin)

    def _lose(self, key: bytes, value: Found) -> None:
        """Forget a block that changed in memory, unless another one has taken its place."""
        entry = self._mover.entries.get(key)
        if entry is not None and entry.value is value:
            logger.error("a block of %d bytes changed in memory: it is dropped", entry.size_bytes)
            self.stats.corrupt_blocks[Tier.DRAM] += 1
            self._mover.drop_lost(entry)
