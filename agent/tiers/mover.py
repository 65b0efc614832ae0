"""Carries moves out with real bytes: decisions come in at once and in order, bytes follow on the I/O threads.

`apply` only notes what was decided; `_settle` then compares that with what there is and starts what is missing. So it
does not matter how far a block had got when the next decision about it came. Everything here happens under the store's
lock, except the device calls themselves.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from agent.engines.base import BlockEngine, CorruptBlock
from agent.engines.dram import MemoryPool, Value
from agent.engines.io_pool import IoPool, Scratch
from agent.stats import Stats
from agent.tiers.blocks import Barrier, BlockRead, Deliver, Entry, Found, ReadJob, Writing
from agent.tiers.erasure import Eraser
from agent.tiers.tally import Tallies
from kvcache.tiering import Move, Reason, Tier, TieredCache

NOT_EVICTIONS = {Reason.PROMOTE, Reason.DEMOTE}
FINAL = {Reason.DELETE, Reason.REPLACE}
"""Reasons after which a restart must not find the block again."""

LOST = "lost"
"""Reason, beside those of `Reason`: the bytes failed their check, or the device refused them."""

Calls = list[Callable[[], None]]
"""What to call once the lock is released."""

logger = logging.getLogger("agent.tiers")


class Mover:
    """The blocks of one store and the jobs that move them."""

    def __init__(
        self, cache: TieredCache, engine: BlockEngine[Any], pool: MemoryPool, io: IoPool, stats: Stats, lock: Any
    ) -> None:
        self.cache = cache
        self.entries: dict[bytes, Entry] = {}
        self.last_error_s: float | None = None
        """Unix time of the device's last refusal."""
        self.writing_bytes = 0
        """Bytes on their way to flash."""
        self.starved: deque[Entry] = deque()
        """Entries whose write waits for slots."""
        self.tallies = Tallies(stats)
        self.eraser = Eraser(engine, io, self._note_error)
        self._engine = engine
        self._pool = pool
        self._io = io
        self._stats = stats
        self._lock = lock
        self._hungry: deque[ReadJob] = deque()
        self.reading = 0
        """Reads that an I/O thread has or will get; they hold on to slots that policy may have dropped."""

    # --- decisions (call under the lock) -----------------------------------------------------------------------------

    def apply(
        self, moves: Iterable[Move], values: dict[bytes, Value] | None = None, barrier: Barrier | None = None
    ) -> None:
        """Carry out `moves`; `values` holds what is admitted, `barrier` waits for the erasures that they need."""
        touched: dict[bytes, Entry] = {}
        stats = self._stats
        for key, source, target, size_bytes, reason in moves:
            if source is None:
                value = (values or {})[key]
                entry = self.entries[key] = Entry(key, value.size_bytes)
                entry.value = value
            else:
                entry = self.entries[key]
            if target is None:
                if reason not in NOT_EVICTIONS:
                    stats.evicted_blocks[source or "", reason] += 1
                    stats.evicted_bytes[source or "", reason] += size_bytes
            elif target is Tier.DRAM:
                entry.in_dram = True
            else:
                entry.in_flash = True
                entry.demoted = source is Tier.DRAM
            if source is Tier.DRAM:
                entry.in_dram = False
            elif source is Tier.FLASH and target is None:
                entry.in_flash = False
            if not (entry.in_dram or entry.in_flash):
                self.close(entry, final=reason in FINAL, barrier=barrier)
            touched[key] = entry
        for entry in touched.values():
            if not entry.closed:
                self._settle(entry)

    def close(self, entry: Entry, *, final: bool, barrier: Barrier | None = None) -> None:
        """Forget an entry; if `final`, no restart may find it again, and `barrier` waits until that is certain."""
        entry.closed = True
        entry.in_dram = entry.in_flash = False
        if self.entries.get(entry.key) is entry:
            del self.entries[entry.key]
        record, entry.record = entry.record, None
        if record is not None:
            if final:
                self.eraser.erase(record, barrier)
            else:
                self._engine.forget(record)
        if entry.writing is Writing.RUNNING:
            if final:
                self.eraser.when_written(entry, barrier)
            else:
                self.eraser.orphan(entry)
        entry.value = None

    def begin_at_once(self, read: BlockRead) -> None:
        """Start reading a block that is about to be replaced: it is erased only after that."""
        self._ensure_read(read)

    def adopt(self, record: Any) -> None:
        """Take over a record that a restart found; limits are seen to by `TieredCache.shrink`."""
        self.cache.restore(record.key, record.size_bytes, Tier.FLASH, record.expires_at_s)
        entry = self.entries[record.key] = Entry(record.key, record.size_bytes)
        entry.in_flash = True
        entry.record = record

    def start_afresh(self, cache: TieredCache) -> None:
        """Forget every entry; the device was wiped before."""
        for entry in self.entries.values():
            entry.closed = True
            entry.in_dram = entry.in_flash = False
            entry.value = entry.record = None
        self.entries.clear()
        self.cache = cache

    def watch(self, found: list[Found]) -> None:
        """Let blocks that are still on flash hear of reads of them that are under way."""
        for one in found:
            if isinstance(one, BlockRead) and one.entry.read is not None:
                one.entry.read.waiters.append(one)

    def begin(self, read: BlockRead, then: Deliver) -> None:
        """See `BlockRead.begin`; takes the lock itself."""
        with self._lock:
            if not read.done:
                read.then = then
                self._ensure_read(read)
            if not read.done:
                return
        then(read.value)

    # --- reconciling (under the lock) --------------------------------------------------------------------------------

    def _settle(self, entry: Entry) -> None:
        """Start what an open entry lacks of what was decided for it, and let go of what it has too much."""
        if entry.value is None:
            if entry.record is None:
                self.drop_lost(entry)
            elif entry.in_dram and entry.read is None:
                entry.read = ReadJob(entry, entry.record)
                self._enqueue_read(entry.read)
        elif entry.in_flash and entry.record is None:
            if entry.writing is Writing.NO:
                self._start_write(entry)
        elif not entry.in_dram and entry.record is not None:
            entry.value = None
        if not entry.in_flash and entry.record is not None and entry.read is None:
            self._engine.forget(entry.record)
            entry.record = None

    def _ensure_read(self, read: BlockRead) -> None:
        entry = read.entry
        if entry.value is not None:
            self._deliver(read, entry.value)
            return
        if entry.read is None:
            job = ReadJob(entry, read.record)
            if entry.record is read.record:
                entry.read = job
            job.waiters.append(read)
            self._enqueue_read(job)
        elif read not in entry.read.waiters:
            entry.read.waiters.append(read)

    def _enqueue_read(self, job: ReadJob) -> None:
        self.eraser.pin(job.record)
        self._hungry.append(job)
        self.feed()

    def feed(self) -> None:
        """Start reads for which there is memory; one always gets some, or nothing would ever come free."""
        while self._hungry:
            job = self._hungry[0]
            value = self._pool.allocate(job.entry.size_bytes, overdraft=self.reading == 0)
            if value is None:
                return
            self._hungry.popleft()
            self.reading += 1
            self._io.submit_read(partial(self._run_read, job, value))

    def _start_write(self, entry: Entry) -> None:
        entry.writing = Writing.QUEUED
        self.writing_bytes += entry.size_bytes
        self._io.submit_write(partial(self._run_write, entry))

    # --- jobs (on I/O threads) ---------------------------------------------------------------------------------------

    def _run_read(self, job: ReadJob, value: Value, scratch: Scratch) -> None:
        problem: Exception | None = None
        done = 0
        try:
            done = self._engine.read(job.record, value, scratch)
        except (CorruptBlock, OSError) as error:
            problem = error.with_traceback(None)
        outcome = None if problem else value
        calls: Calls = []
        with self._lock:
            self.reading -= 1
            self.eraser.unpin(job.record)
            self._stats.flash_read_bytes += done
            self._after_read(job, outcome, problem)
            for read in job.waiters:
                self._deliver(read, outcome)
                if read.then is not None:
                    calls.append(partial(read.then, outcome))
            self.retry_starved()
            self.feed()
        job.waiters.clear()
        for call in calls:
            call()

    def _after_read(self, job: ReadJob, outcome: Value | None, problem: Exception | None) -> None:
        """Bring the entry up to date, unless it was closed or has another record by now: then nothing is to be done."""
        entry = job.entry
        if isinstance(problem, OSError):
            self._note_error("read")
        current = entry.read is job
        if current:
            entry.read = None
        if entry.closed or entry.record is not job.record:
            return
        if problem is None:
            if current and entry.in_dram and entry.value is None:
                entry.value = outcome
                self._count_move(Tier.FLASH, Tier.DRAM, entry)
            self._settle(entry)
            return
        logger.warning("a block of %d bytes on flash is lost: %s", entry.size_bytes, str(problem))
        if isinstance(problem, CorruptBlock):
            self._stats.corrupt_blocks[Tier.FLASH] += 1
        if entry.value is not None and entry.in_dram:
            # The copy in memory is whole: only the one below goes, and is written again.
            self.eraser.erase(entry.record, None)
            entry.record = None
            self._settle(entry)
        else:
            self.drop_lost(entry)

    def drop_lost(self, entry: Entry) -> None:
        """Take a block whose bytes are gone out of the decisions too."""
        for move in self.cache.remove([entry.key]):
            self._stats.evicted_blocks[move.source or "", LOST] += 1
            self._stats.evicted_bytes[move.source or "", LOST] += move.size_bytes
        self.close(entry, final=True)

    def _run_write(self, entry: Entry, scratch: Scratch) -> None:
        with self._lock:
            value = entry.value
            if entry.closed or not entry.in_flash or entry.record is not None or value is None:
                entry.writing = Writing.NO
                self._end_write(entry)
                return
            record = self._engine.reserve(entry.key, entry.size_bytes, self.cache.expires_at(entry.key))
            if record is None:
                self.starved.append(entry)
                return
            entry.writing = Writing.RUNNING
        problem: Exception | None = None
        done = 0
        try:
            done = self._engine.write(record, value, scratch)
        except (CorruptBlock, OSError) as error:
            problem = error.with_traceback(None)
        del value
        with self._lock:
            self._stats.flash_write_bytes += done
            self._after_write(entry, record, problem)
            self._end_write(entry)

    def _after_write(self, entry: Entry, record: Any, problem: Exception | None) -> None:
        entry.writing = Writing.NO
        if isinstance(problem, OSError):
            self._note_error("write")
        elif problem is not None:
            self._stats.corrupt_blocks[Tier.DRAM] += 1
        erased = self.eraser.written(entry, record)
        if problem is not None:
            logger.warning("a block of %d bytes was not stored on flash: %s", entry.size_bytes, str(problem))
            if not entry.closed:
                self.drop_lost(entry)
        elif not entry.closed:
            entry.record = record
            if entry.demoted:
                self._count_move(Tier.DRAM, Tier.FLASH, entry)
        elif not erased:
            self._engine.forget(record)
        barriers, entry.on_whole = entry.on_whole, ()
        for barrier in barriers:
            self.rewrite_expiry(entry, barrier)
            barrier.done()

    def _end_write(self, entry: Entry) -> None:
        self.writing_bytes -= entry.size_bytes
        if not entry.closed:
            self._settle(entry)

    def retry_starved(self) -> None:
        """Try the writes again that found no free slots."""
        while self.starved:
            self._io.submit_write(partial(self._run_write, self.starved.popleft()))

    def rewrite_expiry(self, entry: Entry, barrier: Barrier) -> None:
        """Let the record of an entry expire as decided, also after a restart; `barrier` waits for it.

        A write that no thread has begun takes the new expiry with it.
        """
        if entry.record is not None:
            barrier.add()
            self._io.submit_read(partial(self._run_rewrite, entry, entry.record, barrier))
        elif entry.writing is Writing.RUNNING:
            barrier.add()
            entry.on_whole = (*entry.on_whole, barrier)

    def _run_rewrite(self, entry: Entry, record: Any, barrier: Barrier, scratch: Scratch) -> None:
        try:
            while True:
                with self._lock:
                    expires_at_s = self.cache.expires_at(entry.key)
                    if entry.closed or entry.record is not record or record.expires_at_s == expires_at_s:
                        return
                self._engine.set_expiry(record, expires_at_s, scratch)
        except (CorruptBlock, OSError) as error:
            logger.warning("the expiry of a block on flash could not be changed: %s", str(error))
        finally:
            barrier.done()

    # --- counting ----------------------------------------------------------------------------------------------------

    def _count_move(self, source: Tier, target: Tier, entry: Entry) -> None:
        self._stats.moved_blocks[source, target] += 1
        self._stats.moved_bytes[source, target] += entry.size_bytes

    def _deliver(self, read: BlockRead, outcome: Value | None) -> None:
        read.value, read.done = outcome, True
        self.tallies.settle(read, outcome)

    def _note_error(self, operation: str) -> None:
        with self._lock:
            self._stats.flash_errors[operation] += 1
            self.last_error_s = time.time()
