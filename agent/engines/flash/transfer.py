"""Bytes of one record between memory and the flash file: headers made and checked, payload never copied needlessly.

Whole chunks of a value go to and from the device as they lie in memory. What is left of it on the heap is not aligned
to pages and passes through the thread's bounce buffer. Slots that follow each other in the file share one call.
"""

from collections.abc import Iterator

from agent.config import PAGE_BYTES
from agent.engines.base import CorruptBlock
from agent.engines.checksum import Piece, checksum
from agent.engines.dram import CHUNK_BYTES, Value, pieces_of
from agent.engines.flash.device import FlashFile
from agent.engines.flash.layout import INLINE, Geometry, Header
from agent.engines.flash.record import FlashRecord
from agent.engines.flash.slots import Slots
from agent.engines.io_pool import HEADER_PAGES, Scratch


def write_inline(file: FlashFile, record: FlashRecord, value: Value, scratch: Scratch) -> int:
    """Write header and payload as one page; return the bytes. Raises `OSError`, `CorruptBlock`."""
    if not value.intact():
        raise CorruptBlock("the value changed in memory")
    header = record.header(0, value.size_bytes, value.crc32c or 0, INLINE)
    page = scratch.pages[0]
    header.pack_into(page)
    at = header.length
    for piece in value.views:
        page[at : at + len(piece)] = piece
        at += len(piece)
    return file.writev([page], record.slots[0])


def read_inline(file: FlashFile, record: FlashRecord, value: Value, scratch: Scratch) -> int:
    """Fill `value` from one page and seal it; return the bytes. Raises `OSError`, `CorruptBlock`."""
    page = scratch.pages[0]
    done = file.readv([page], record.slots[0])
    header = checked_header(record, page, 0, value.size_bytes, INLINE)
    payload = page[header.length : header.length + value.size_bytes]
    _check_payload(checksum([payload]), header)
    for view in value.views:
        memoryview(view)[:] = payload
    value.crc32c = header.payload_crc32c
    return done


def write_parts(file: FlashFile, geometry: Geometry, record: FlashRecord, value: Value, scratch: Scratch) -> int:
    """Write a record of bulk slots; return the bytes. Raises `OSError`, `CorruptBlock`."""
    views = _aligned_views(value, scratch, fill=True)
    done = crc = 0
    for first, run in _runs(record.slots, geometry.slot_bytes):
        buffers: list[Piece] = []
        for index in range(len(run)):
            part = first + index
            size = _part_bytes(geometry, value.size_bytes, part)
            start = part * geometry.payload_bytes
            crc = checksum(pieces_of(value.views, start, size), crc)
            record.header(part, size, crc).pack_into(scratch.pages[index])
            buffers.append(scratch.pages[index])
            buffers += pieces_of(views, start, _whole_pages(size))
        if first + len(run) == len(record.slots) and crc != value.crc32c:
            raise CorruptBlock("the value changed in memory")
        done += file.writev(buffers, run[0])
    return done


def read_parts(file: FlashFile, geometry: Geometry, record: FlashRecord, value: Value, scratch: Scratch) -> int:
    """Fill `value` from bulk slots and seal it; return the bytes. Raises `OSError`, `CorruptBlock`."""
    views = _aligned_views(value, scratch, fill=False)
    done = crc = 0
    for first, run in _runs(record.slots, geometry.slot_bytes):
        buffers: list[Piece] = []
        for index in range(len(run)):
            size = _part_bytes(geometry, value.size_bytes, first + index)
            buffers.append(scratch.pages[index])
            buffers += pieces_of(views, (first + index) * geometry.payload_bytes, _whole_pages(size))
        done += file.readv(buffers, run[0])
        for index in range(len(run)):
            size = _part_bytes(geometry, value.size_bytes, first + index)
            header = checked_header(record, scratch.pages[index], first + index, size, 0)
            crc = checksum(pieces_of(views, (first + index) * geometry.payload_bytes, size), crc)
            _check_payload(crc, header)
    if views is not value.views:
        rest = memoryview(value.views[-1])
        rest[:] = scratch.bounce[: len(rest)]
    value.crc32c = crc
    return done


def checked_header(record: FlashRecord, page: memoryview, part: int, part_bytes: int, flags: int) -> Header:
    """Return the header in `page` if it is that of this very part of this very record. Raises `CorruptBlock`."""
    header = Header.unpack(page)
    expected = record.header(part, part_bytes, header.payload_crc32c, flags)._replace(expires_ms=header.expires_ms)
    if header != expected:
        raise CorruptBlock("the header is that of another record")
    return header


def _check_payload(crc: int, header: Header) -> None:
    if crc != header.payload_crc32c:
        raise CorruptBlock("the payload does not match its checksum")


def _aligned_views(value: Value, scratch: Scratch, *, fill: bool) -> tuple[Piece, ...]:
    """Return the value's memory with its heap rest, if any, replaced by whole pages of the bounce buffer."""
    rest_bytes = value.size_bytes % CHUNK_BYTES
    if not rest_bytes:
        return value.views
    bounce = scratch.bounce[: _whole_pages(rest_bytes)]
    if fill:
        bounce[:rest_bytes] = value.views[-1]
        bounce[rest_bytes:] = bytes(len(bounce) - rest_bytes)
    return (*value.views[:-1], bounce)


def _part_bytes(geometry: Geometry, size_bytes: int, part: int) -> int:
    return min(geometry.payload_bytes, size_bytes - part * geometry.payload_bytes)


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES


def _runs(slots: Slots, slot_bytes: int) -> Iterator[tuple[int, Slots]]:
    """Yield stretches of slots that follow each other in the file, each with the number of its first part.

    Only the payload of a record's last part may end before its slot does, so a stretch is one transfer.
    """
    first = 0
    for index in range(1, len(slots) + 1):
        ends = index == len(slots) or slots[index] != slots[index - 1] + slot_bytes or index - first == HEADER_PAGES
        if ends:
            yield first, slots[first:index]
            first = index
