"""Takes deleted and replaced blocks off the device, so that no restart finds them, and tells who waits for that.

A record is erased only after the reads of it that are under way, and one that is just being written only after that.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from agent.engines.base import BlockEngine
from agent.engines.io_pool import IoPool, Job, Scratch
from agent.tiers.blocks import Barrier, Entry

logger = logging.getLogger("agent.tiers")


class _Pin:
    __slots__ = ("erasures", "reads")

    def __init__(self) -> None:
        self.reads = 0
        self.erasures: list[Job] = []


class Eraser:
    """Call under the store's lock."""

    def __init__(self, engine: BlockEngine[Any], io: IoPool, on_error: Callable[[str], None]) -> None:
        self._engine = engine
        self._io = io
        self._on_error = on_error
        self._pins: dict[Any, _Pin] = {}
        self._orphans: dict[bytes, list[Entry]] = {}

    def pin(self, record: Any) -> None:
        """Note a read of `record` that begins."""
        self._pins.setdefault(record, _Pin()).reads += 1

    def unpin(self, record: Any) -> None:
        """Note the end of such a read."""
        pin = self._pins[record]
        pin.reads -= 1
        if not pin.reads:
            del self._pins[record]
            for erasure in pin.erasures:
                self._io.submit_read(erasure)

    def erase(self, record: Any, barrier: Barrier | None) -> None:
        """Erase one record; `barrier` waits for it."""
        job = self._job(partial(self._engine.erase, record), barrier)
        pin = self._pins.get(record)
        if pin is None:
            self._io.submit_read(job)
        else:
            pin.erasures.append(job)

    def erase_past(self, key: bytes, barrier: Barrier) -> None:
        """Erase what earlier lives of `key` left on the device or are just writing to it, if anything."""
        if self._engine.has_stale(key):
            self._io.submit_read(self._job(partial(self._engine.erase_stale, key), barrier))
        for orphan in self._orphans.get(key, ()):
            self.when_written(orphan, barrier)

    def when_written(self, entry: Entry, barrier: Barrier | None) -> None:
        """Erase the record that is just being written for a closed entry once that has ended."""
        barrier = barrier or Barrier()
        barrier.add()
        entry.on_written = (*entry.on_written, barrier)

    def orphan(self, entry: Entry) -> None:
        """Note an entry that was evicted while its record is being written: its key may be written anew meanwhile."""
        self._orphans.setdefault(entry.key, []).append(entry)

    def written(self, entry: Entry, record: Any) -> bool:
        """Note the end of a write; True when the record is being erased because somebody waits for that."""
        orphans = self._orphans.get(entry.key)
        if orphans is not None and entry in orphans:
            orphans.remove(entry)
            if not orphans:
                del self._orphans[entry.key]
        barriers, entry.on_written = entry.on_written, ()
        for barrier in barriers:
            self.erase(record, barrier)
            barrier.done()
        return bool(barriers)

    def _job(self, erase: Callable[[Scratch], None], barrier: Barrier | None) -> Job:
        if barrier is not None:
            barrier.add()
        return partial(self._run, erase, barrier)

    def _run(self, erase: Callable[[Scratch], None], barrier: Barrier | None, scratch: Scratch) -> None:
        """Runs on an I/O thread."""
        try:
            erase(scratch)
        except OSError as error:
            self._on_error("write")
            logger.warning("a deleted block could not be erased from flash: %s", error.strerror)
        finally:
            if barrier is not None:
                barrier.done()
