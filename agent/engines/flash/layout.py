"""How the flash file is laid out, byte for byte.

    [superblock page] [group] [group] ...
    group = 64 small slots of one page, then 64 bulk slots of a header page and the payload

Everything begins on a 4 KiB page. A block that fits into a page beside its header takes one small slot; any other takes
as many bulk slots as its payload needs, anywhere in the file, each with a header of its own. Numbers are little endian.

A header carries the id of its volume, which is new whenever the file is made or wiped: bytes that an earlier life of
the file left behind, or that somebody stored as a value, are never taken for a record.
"""

import struct
from typing import NamedTuple

from agent.config import PAGE_BYTES
from agent.engines.base import CorruptBlock
from agent.engines.checksum import checksum

MAGIC_FILE = b"KVFFLASH"
MAGIC_RECORD = b"KVB1"
FORMAT_VERSION = 1
VOLUME_ID_BYTES = 16
SLOTS_PER_GROUP = 64
NO_EXPIRY = 0

_SUPERBLOCK = struct.Struct("<8sIQ16s")
_RECORD = struct.Struct("<4sI16sQQQIIIIHH")
_CRC = struct.Struct("<I")
_CRC_OFFSET = 4
_CRC_END = 8
RECORD_BYTES = _RECORD.size
INLINE = 1
"""Flag: the payload follows the key in the header page."""


class Superblock(NamedTuple):
    """What the first page says of the file."""

    slot_bytes: int
    volume_id: bytes

    def pack(self) -> bytes:
        """Return the page."""
        body = _SUPERBLOCK.pack(MAGIC_FILE, FORMAT_VERSION, self.slot_bytes, self.volume_id)
        return (body + _CRC.pack(checksum([body]))).ljust(PAGE_BYTES, b"\0")

    @classmethod
    def unpack(cls, page: bytes | memoryview) -> "Superblock | None":
        """Return what `page` says, or None when it is not a superblock of this version."""
        body = bytes(page[: _SUPERBLOCK.size])
        if len(page) < PAGE_BYTES or _CRC.unpack_from(page, _SUPERBLOCK.size)[0] != checksum([body]):
            return None
        magic, version, slot_bytes, volume_id = _SUPERBLOCK.unpack(body)
        if magic != MAGIC_FILE or version != FORMAT_VERSION:
            return None
        return cls(slot_bytes, volume_id)


class Header(NamedTuple):
    """What stands in front of each part of a block. `payload_crc32c` runs from the block's start to this part's end."""

    volume_id: bytes
    generation: int
    value_bytes: int
    expires_ms: int
    part: int
    parts: int
    part_bytes: int
    payload_crc32c: int
    flags: int
    key: bytes

    @property
    def length(self) -> int:
        """Bytes of the header with its key."""
        return RECORD_BYTES + len(self.key)

    def pack_into(self, page: memoryview) -> None:
        """Write the header, its checksum and zeros up to the end of the page."""
        end = self.length
        _RECORD.pack_into(
            page, 0, MAGIC_RECORD, 0, self.volume_id, self.generation, self.value_bytes, self.expires_ms,
            self.part, self.parts, self.part_bytes, self.payload_crc32c, len(self.key), self.flags,
        )  # fmt: skip
        page[RECORD_BYTES:end] = self.key
        page[end:PAGE_BYTES] = _ZEROS[: PAGE_BYTES - end]
        _CRC.pack_into(page, _CRC_OFFSET, checksum([page[_CRC_END:end]]))

    @classmethod
    def unpack(cls, page: memoryview) -> "Header":
        """Return the header in `page`.

        Raises:
            CorruptBlock: it is none, or was not written whole.
        """
        magic, crc, *fields = _RECORD.unpack_from(page)
        end = RECORD_BYTES + fields[8]
        if magic != MAGIC_RECORD or end > PAGE_BYTES or crc != checksum([page[_CRC_END:end]]):
            raise CorruptBlock("no record header")
        return cls._make([*fields[:8], fields[9], bytes(page[RECORD_BYTES:end])])


_ZEROS = bytes(PAGE_BYTES)


class Geometry(NamedTuple):
    """Where the slots of a file are."""

    slot_bytes: int
    groups: int

    @classmethod
    def for_limit(cls, limit_bytes: int, slot_bytes: int) -> "Geometry":
        """Return room for `limit_bytes` of payload and a sixteenth more, for blocks on their way in and out."""
        payload = (slot_bytes - PAGE_BYTES) * SLOTS_PER_GROUP
        needed = limit_bytes + limit_bytes // 16
        return cls(slot_bytes, max(2, -(-needed // payload)))

    @property
    def payload_bytes(self) -> int:
        """Payload of one bulk slot."""
        return self.slot_bytes - PAGE_BYTES

    @property
    def group_bytes(self) -> int:
        """Bytes of one group."""
        return SLOTS_PER_GROUP * (PAGE_BYTES + self.slot_bytes)

    @property
    def file_bytes(self) -> int:
        """Bytes of the whole file."""
        return PAGE_BYTES + self.groups * self.group_bytes

    def group_offset(self, group: int) -> int:
        """Return where a group begins."""
        return PAGE_BYTES + group * self.group_bytes

    def small_offsets(self) -> list[int]:
        """Return where the small slots are, in file order."""
        return [
            self.group_offset(group) + slot * PAGE_BYTES
            for group in range(self.groups)
            for slot in range(SLOTS_PER_GROUP)
        ]

    def bulk_offsets(self) -> list[int]:
        """Return where the bulk slots are, in file order."""
        return [
            self.group_offset(group) + SLOTS_PER_GROUP * PAGE_BYTES + slot * self.slot_bytes
            for group in range(self.groups)
            for slot in range(SLOTS_PER_GROUP)
        ]

    def fits_small(self, key: bytes, size_bytes: int) -> bool:
        """Tell whether a block fits into one page beside its header."""
        return RECORD_BYTES + len(key) + size_bytes <= PAGE_BYTES

    def parts(self, size_bytes: int) -> int:
        """Return how many bulk slots a block takes."""
        return max(1, -(-size_bytes // self.payload_bytes))
