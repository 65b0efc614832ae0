"""The flash engine: blocks in the slots of one file, every read checked, nothing synced on the way.

A cache may forget, never lie: the file is not synced, so a power cut may lose or tear any record, and each of them is
found out by its checksums. A killed process loses only what it had not yet handed to the kernel.
"""

import contextlib
import itertools
import logging
import mmap
import os
import threading
from pathlib import Path

from agent.config import PAGE_BYTES
from agent.engines.base import CorruptBlock
from agent.engines.dram import Value
from agent.engines.flash.device import FlashFile
from agent.engines.flash.layout import INLINE, VOLUME_ID_BYTES, Geometry, Superblock
from agent.engines.flash.record import FlashRecord, Found, milliseconds
from agent.engines.flash.recovery import scan
from agent.engines.flash.slots import SlotSpace
from agent.engines.flash.transfer import checked_header, read_inline, read_parts, write_inline, write_parts
from agent.engines.io_pool import Scratch

logger = logging.getLogger("agent.flash")


class FlashEngine:
    """See `agent.engines.base.BlockEngine`; any thread may call anything."""

    def __init__(self, path: Path, limit_bytes: int, slot_bytes: int, io: str = "auto") -> None:
        """Open or make the file at `path` with room for `limit_bytes` of payload.

        Raises:
            EngineError: the file cannot be opened, is in use, or the disk lacks the room.
        """
        self.geometry = Geometry.for_limit(limit_bytes, slot_bytes)
        self._file = FlashFile(path, self.geometry.file_bytes, io)
        self._small = SlotSpace(self.geometry.small_offsets())
        self._bulk = SlotSpace(self.geometry.bulk_offsets())
        self._generations = itertools.count(1)
        self._header_lock = threading.Lock()
        """Held while a header is changed in place, so that one which was erased does not come back."""
        self._blank = mmap.mmap(-1, PAGE_BYTES)
        self._volume_id = self._load_or_format()

    @property
    def direct(self) -> bool:
        """Tell whether the page cache is bypassed."""
        return self._file.direct

    def recover(self, now_s: float, threads: int = 4) -> list[FlashRecord]:
        """Return every whole record that is not expired, oldest first; erase the headers of what is not whole.

        Of a key with several records only the newest counts, and if that one is not whole, none does: an older one
        may have been replaced before it.
        """
        outcome = scan(self._file, self.geometry, self._volume_id, threads)
        for offset in outcome.rejected:
            self._blank_out(offset)
        records: list[FlashRecord] = []
        for found in outcome.found:
            space = self._small if found.small else self._bulk
            if found.expires_at_s is not None and found.expires_at_s <= now_s:
                space.note_stale(found.key, found.slots[0])
            else:
                records.append(FlashRecord(found, space, self._volume_id))
        for space in (self._small, self._bulk):
            space.claim(offset for record in records if record.space is space for offset in record.slots)
        self._generations = itertools.count(outcome.last_generation + 1)
        return records

    def reserve(self, key: bytes, size_bytes: int, expires_at_s: float | None) -> FlashRecord | None:
        """Return a record with slots for the block, or None when there are not enough free ones."""
        space, slots = self._small, None
        if self.geometry.fits_small(key, size_bytes):
            slots = space.take(1)
        if slots is None:
            space = self._bulk
            slots = space.take(self.geometry.parts(size_bytes))
        if slots is None:
            return None
        found = Found(key, size_bytes, next(self._generations), expires_at_s, slots, space is self._small)
        return FlashRecord(found, space, self._volume_id)

    def write(self, record: FlashRecord, value: Value, scratch: Scratch) -> int:
        """Write a block; return the bytes that went to the device. Raises `OSError`, `CorruptBlock`."""
        successful = False
        try:
            if record.space is self._small:
                done = write_inline(self._file, record, value, scratch)
            else:
                done = write_parts(self._file, self.geometry, record, value, scratch)
            successful = True
            return done
        except OSError:
            self._try_to_erase(record)
            raise
        finally:
            record.space.written(record.slots, successful=successful)

    def read(self, record: FlashRecord, value: Value, scratch: Scratch) -> int:
        """Fill `value` and seal it; return the bytes that came from the device. Raises `OSError`, `CorruptBlock`."""
        # A header that was just being rewritten looks torn; what is really corrupt is so at the second look too.
        with contextlib.suppress(CorruptBlock):
            return self._read(record, value, scratch)
        return self._read(record, value, scratch)

    def set_expiry(self, record: FlashRecord, expires_at_s: float | None, scratch: Scratch) -> None:
        """Let a written record expire at another time, also after a restart. Raises `OSError`, `CorruptBlock`."""
        page = scratch.pages[0]
        inline = record.space is self._small
        first = record.size_bytes if inline else min(record.size_bytes, self.geometry.payload_bytes)
        with self._header_lock:
            if record.let_go:
                return
            self._file.readv([page], record.slots[0])
            header = checked_header(record, page, 0, first, INLINE if inline else 0)
            payload = bytes(page[header.length :])
            header._replace(expires_ms=milliseconds(expires_at_s)).pack_into(page)
            page[header.length :] = payload
            self._file.writev([page], record.slots[0])
        record.expires_at_s = expires_at_s

    def forget(self, record: FlashRecord) -> None:
        """Let go of a record which policy dropped; until its slots are reused a restart may find it again."""
        record.let_go = True
        if record.volume_id is self._volume_id:
            record.space.note_stale(record.key, record.slots[0])

    def erase(self, record: FlashRecord, scratch: Scratch) -> None:
        """Make sure that no restart finds this record again. Raises `OSError`."""
        record.let_go = True
        with self._header_lock:
            self._blank_out(record.slots[0])

    def has_stale(self, key: bytes) -> bool:
        """Tell whether a forgotten record of `key` could still be found by a restart."""
        return self._bulk.has_stale(key) or self._small.has_stale(key)

    def erase_stale(self, key: bytes, scratch: Scratch) -> None:
        """Make sure that no restart finds a forgotten record of `key`. Raises `OSError`."""
        for space in (self._bulk, self._small):
            while (offset := space.begin_erasing(key)) is not None:
                successful = False
                try:
                    with self._header_lock:
                        self._blank_out(offset)
                    successful = True
                finally:
                    space.end_erasing(key, offset, successful=successful)

    def wipe(self) -> None:
        """Make sure that no restart finds anything that was written up to now. Raises `OSError`."""
        self._volume_id = self._format()
        self._small.forget_all_stale()
        self._bulk.forget_all_stale()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _read(self, record: FlashRecord, value: Value, scratch: Scratch) -> int:
        if record.space is self._small:
            return read_inline(self._file, record, value, scratch)
        return read_parts(self._file, self.geometry, record, value, scratch)

    def _load_or_format(self) -> bytes:
        page = mmap.mmap(-1, PAGE_BYTES)
        self._file.readv([memoryview(page)], 0)
        found = Superblock.unpack(memoryview(page))
        if found is not None and found.slot_bytes == self.geometry.slot_bytes:
            return found.volume_id
        if found is not None:
            sizes = (found.slot_bytes, self.geometry.slot_bytes)
            logger.warning("the flash file has slots of %d bytes, not %d: the tier starts empty", *sizes)
        return self._format()

    def _format(self) -> bytes:
        volume_id = os.urandom(VOLUME_ID_BYTES)
        page = mmap.mmap(-1, PAGE_BYTES)
        page[:] = Superblock(self.geometry.slot_bytes, volume_id).pack()
        self._file.writev([memoryview(page)], 0)
        return volume_id

    def _blank_out(self, offset: int) -> None:
        self._file.writev([memoryview(self._blank)], offset)

    def _try_to_erase(self, record: FlashRecord) -> None:
        try:
            self._blank_out(record.slots[0])
        except OSError as error:
            logger.warning("a record that could not be written could not be erased either: %s", error.strerror)
