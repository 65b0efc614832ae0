"""What a flash file holds, found out from its headers alone: after a crash nothing else is to be believed."""

import mmap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from agent.config import PAGE_BYTES
from agent.engines.base import CorruptBlock
from agent.engines.flash.device import FlashFile
from agent.engines.flash.layout import INLINE, SLOTS_PER_GROUP, Geometry, Header
from agent.engines.flash.record import Found, seconds


class Outcome(NamedTuple):
    """Whole records, oldest first; offsets of headers that no later restart may find; the last generation used."""

    found: list[Found]
    rejected: list[int]
    last_generation: int


class _Seen(NamedTuple):
    offset: int
    header: Header


def scan(file: FlashFile, geometry: Geometry, volume_id: bytes, threads: int) -> Outcome:
    """Read every header of the file with a few threads. Raises `OSError`."""
    local = threading.local()

    def scan_group(group: int) -> list[_Seen]:
        if not hasattr(local, "pages"):
            local.pages = memoryview(mmap.mmap(-1, SLOTS_PER_GROUP * PAGE_BYTES))
        return [seen for seen in _headers(file, geometry, group, local.pages) if seen.header.volume_id == volume_id]

    with ThreadPoolExecutor(threads, thread_name_prefix="recover") as pool:
        seen = [one for group in pool.map(scan_group, range(geometry.groups)) for one in group]
    return judge(geometry, seen)


def judge(geometry: Geometry, seen: list[_Seen]) -> Outcome:
    """Tell whole records from the rest: of each key the newest generation, and that one only if all parts are there."""
    newest: dict[bytes, int] = {}
    for one in seen:
        newest[one.header.key] = max(newest.get(one.header.key, 0), one.header.generation)
    parts: dict[bytes, list[_Seen]] = {}
    rejected: list[int] = []
    for one in seen:
        if one.header.generation == newest[one.header.key]:
            parts.setdefault(one.header.key, []).append(one)
        else:
            rejected.append(one.offset)
    found: list[Found] = []
    for key, group in parts.items():
        group.sort(key=lambda one: one.header.part)
        if _whole(geometry, group):
            head = group[0].header
            slots = tuple(one.offset for one in group)
            expires_at_s = seconds(head.expires_ms)
            small = bool(head.flags & INLINE)
            found.append(Found(key, head.value_bytes, head.generation, expires_at_s, slots, small))
        else:
            rejected += [one.offset for one in group]
    found.sort(key=lambda record: record.generation)
    return Outcome(found, rejected, max(newest.values(), default=0))


def _whole(geometry: Geometry, group: list[_Seen]) -> bool:
    """Tell whether these headers are all parts of one record, each with the length that its place demands."""
    head = group[0].header
    inline = bool(head.flags & INLINE)
    parts = 1 if inline else geometry.parts(head.value_bytes)
    if len(group) != parts:
        return False
    full = head.value_bytes if inline else geometry.payload_bytes
    for part, (_, header) in enumerate(group):
        length = min(full, head.value_bytes - part * full)
        # Each part has a checksum of its own, and a later expiry is written to the first header only.
        alike = header._replace(payload_crc32c=head.payload_crc32c, expires_ms=head.expires_ms)
        if alike != head._replace(part=part, parts=parts, part_bytes=length):
            return False
    return True


def _headers(file: FlashFile, geometry: Geometry, group: int, pages: memoryview) -> Iterator[_Seen]:
    """Yield the headers of one group; stretches that were never written are passed over unread."""
    base = geometry.group_offset(group)
    end = base + geometry.group_bytes
    data = file.next_data(base)
    if data is None or data >= end:
        return
    first_bulk = base + SLOTS_PER_GROUP * PAGE_BYTES
    if data < first_bulk:
        file.readv([pages], base)
        for slot in range(SLOTS_PER_GROUP):
            page = pages[slot * PAGE_BYTES : (slot + 1) * PAGE_BYTES]
            yield from _header(page, base + slot * PAGE_BYTES)
    page = pages[:PAGE_BYTES]
    for offset in range(first_bulk, end, geometry.slot_bytes):
        if data < offset:
            data = file.next_data(offset) or end
        if data >= offset + PAGE_BYTES:
            continue
        file.readv([page], offset)
        yield from _header(page, offset)


def _header(page: memoryview, offset: int) -> Iterator[_Seen]:
    try:
        yield _Seen(offset, Header.unpack(page))
    except CorruptBlock:
        return
