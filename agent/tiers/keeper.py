"""The store's background work, in bounded steps between commands: expiry, giving space back, what waits for slots."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agent.engines.base import BlockEngine
from agent.engines.dram import MemoryPool
from agent.protocol import Condition
from agent.tiers.mover import Mover
from kvcache.policy import ResolvedPolicy
from kvcache.tiering import Tier

EXPIRE_STEP = 512
SHRINK_STEP = 128
"""Victims of one step: commands wait at most for that many decisions."""
PAUSE_S = 0.002
WRITING_LIMIT_BYTES = 64 << 20
"""Giving back DRAM pauses while this much of it is still on its way to flash."""
PRESSING_SHARE = 0.8
"""A tier that is filled less than this has no need of the capacity that was taken from it, or of it being taken."""
ERROR_MEMORY_S = 60.0

logger = logging.getLogger("agent.keeper")


class Keeper:
    """One thread; `wake` makes it look at once instead of at its next round."""

    def __init__(
        self,
        mover: Mover,
        engine: BlockEngine[Any],
        pool: MemoryPool,
        lock: Any,
        policy: ResolvedPolicy,
        clock: Callable[[], float],
    ) -> None:
        self._mover = mover
        self._engine = engine
        self._pool = pool
        self._lock = lock
        self._policy = policy
        self._clock = clock
        self._short_of_slots_since_s: float | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def policy(self) -> ResolvedPolicy:
        """The policy that was asked for; the one in force may have less flash (see `conditions`)."""
        return self._policy

    def start(self, interval_s: float) -> None:
        """Begin to look every `interval_s`."""
        self._thread = threading.Thread(target=self._run, args=(interval_s,), name="keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def obey(self, policy: ResolvedPolicy) -> None:
        """Follow another policy from now on (call under the lock)."""
        self._policy = policy
        self._short_of_slots_since_s = None
        self._mover.cache.apply(policy)
        self._wake.set()

    def conditions(self) -> tuple[Condition, ...]:
        """What an operator should know about the flash tier."""
        found = []
        since_s = self._short_of_slots_since_s
        if since_s is not None:
            text = "blocks need more slots than their bytes promise: set KVAGENT_FLASH_SLOT_BYTES to 4 KiB + a block"
            found.append(_condition("FlashSlotsShort", "SlotSizeUnfit", text, since_s))
        error_s = self._mover.last_error_s
        if error_s is not None and time.time() - error_s < ERROR_MEMORY_S:
            text = "the device or file system of the flash file refused a read or write: see the agent's log"
            found.append(_condition("FlashDegraded", "DeviceError", text, error_s))
        return tuple(found)

    def _run(self, interval_s: float) -> None:
        while not self._stopping:
            try:
                busy = self.round()
            except Exception:
                logger.exception("a round of background work failed")
                busy = False
            if not busy:
                self._wake.wait(interval_s)
                self._wake.clear()
            else:
                time.sleep(PAUSE_S)

    def round(self) -> bool:
        """Do one step of everything; tell whether more is to be done at once."""
        mover = self._mover
        with self._lock:
            expired = mover.cache.expire(self._clock(), EXPIRE_STEP)
            mover.apply(expired)
        with self._lock:
            self._relieve_slots()
            shrunk = []
            over = mover.cache.is_over()
            if over and mover.writing_bytes < WRITING_LIMIT_BYTES:
                shrunk = mover.cache.shrink(SHRINK_STEP)
                mover.apply(shrunk)
        if shrunk and not mover.cache.is_over():
            logger.info("the tiers are within the policy again")
        if not over:
            self._pool.trim(self._pool_bytes_wanted())
        return over or len(expired) >= EXPIRE_STEP

    def _pool_bytes_wanted(self) -> int:
        """Free memory worth keeping: what DRAM may still grow by, and some for values on their way."""
        room = self._mover.cache.policy.dram.capacity_bytes - self._mover.cache.usage(Tier.DRAM).bytes
        return max(0, room) + WRITING_LIMIT_BYTES

    def _relieve_slots(self) -> None:
        """Where slots run out before bytes do, lower the flash tier's capacity to what really fits."""
        mover = self._mover
        if not mover.starved:
            flash = mover.cache.policy.flash
            pressing = mover.writing_bytes or mover.cache.usage(Tier.FLASH).bytes > PRESSING_SHARE * flash.high_bytes
            if self._short_of_slots_since_s is not None and not pressing:
                self.obey(self._policy)
            return
        if not mover.reading:
            wanted = sum(entry.size_bytes for entry in mover.starved)
            flash = mover.cache.policy.flash
            room = max(0, min(mover.cache.usage(Tier.FLASH).bytes, flash.high_bytes) - wanted)
            smaller = replace(flash, capacity_bytes=room, high_bytes=room, low_bytes=min(room, flash.low_bytes))
            mover.cache.apply(replace(mover.cache.policy, flash=smaller))
            if self._short_of_slots_since_s is None:
                self._short_of_slots_since_s = time.time()
                logger.warning("flash slots ran out before the tier's bytes did: it holds less than its policy allows")
        mover.retry_starved()


def _condition(kind: str, reason: str, message: str, since_s: float) -> Condition:
    return Condition(type=kind, status="true", reason=reason, message=message, since_s=since_s)
