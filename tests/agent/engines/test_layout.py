"""The file format: what is packed is read back; anything else is no header."""

import mmap
import random

import pytest

from agent.config import PAGE_BYTES
from agent.engines.base import CorruptBlock
from agent.engines.flash.layout import RECORD_BYTES, SLOTS_PER_GROUP, Geometry, Header, Superblock

HEADER = Header(
    volume_id=bytes(range(16)),
    generation=7,
    value_bytes=100_000,
    expires_ms=123_456,
    part=1,
    parts=2,
    part_bytes=34_464,
    payload_crc32c=0xDEADBEEF,
    flags=0,
    key=b"model@1@0@abcdef@bf16kv_bytes",
)


def page() -> memoryview:
    return memoryview(mmap.mmap(-1, PAGE_BYTES))


@pytest.mark.parametrize("key", [b"", b"k", b"x" * 2048, bytes(range(256))])
def test_header_roundtrip(key: bytes) -> None:
    memory = page()
    memory[:] = b"\xaa" * PAGE_BYTES
    header = HEADER._replace(key=key)
    header.pack_into(memory)
    assert Header.unpack(memory) == header
    assert memory[header.length :] == bytes(PAGE_BYTES - header.length)


def test_header_every_flipped_bit_is_noticed() -> None:
    memory = page()
    HEADER.pack_into(memory)
    for bit in range(HEADER.length * 8):
        memory[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBlock):
            Header.unpack(memory)
        memory[bit // 8] ^= 1 << bit % 8
    assert Header.unpack(memory) == HEADER


def test_header_random_pages_are_none() -> None:
    chance = random.Random(1)
    for _ in range(200):
        memory = page()
        memory[:] = chance.randbytes(PAGE_BYTES)
        memory[:4] = b"KVB1"
        with pytest.raises(CorruptBlock):
            Header.unpack(memory)


def test_superblock_roundtrip_and_damage() -> None:
    block = Superblock(slot_bytes=69632, volume_id=bytes(16))
    packed = block.pack()
    assert len(packed) == PAGE_BYTES
    assert Superblock.unpack(packed) == block
    assert Superblock.unpack(bytes(PAGE_BYTES)) is None
    assert Superblock.unpack(packed[:100]) is None
    for at in range(40):
        damaged = bytearray(packed)
        damaged[at] ^= 0x10
        assert Superblock.unpack(bytes(damaged)) is None


@pytest.mark.parametrize(("limit", "slot"), [(0, 8192), (1 << 20, 8192), (1 << 30, 69632), (10_000_000, 12288)])
def test_geometry_slots_are_aligned_disjoint_and_enough(limit: int, slot: int) -> None:
    geometry = Geometry.for_limit(limit, slot)
    small, bulk = geometry.small_offsets(), geometry.bulk_offsets()
    assert len(small) == len(bulk) == geometry.groups * SLOTS_PER_GROUP
    assert len(bulk) * geometry.payload_bytes >= limit
    spans = sorted([(at, at + PAGE_BYTES) for at in small] + [(at, at + slot) for at in bulk])
    assert spans[0][0] >= PAGE_BYTES
    assert spans[-1][1] == geometry.file_bytes
    for (_, end), (begin, _) in zip(spans, spans[1:], strict=False):  # noqa: RUF007
        assert end == begin
        assert begin % PAGE_BYTES == 0


def test_geometry_growing_moves_no_slot() -> None:
    before, after = Geometry.for_limit(1 << 24, 69632), Geometry.for_limit(1 << 26, 69632)
    assert after.bulk_offsets()[: before.groups * SLOTS_PER_GROUP] == before.bulk_offsets()
    assert after.small_offsets()[: before.groups * SLOTS_PER_GROUP] == before.small_offsets()


def test_geometry_small_block_is_what_fits_beside_its_header() -> None:
    geometry = Geometry.for_limit(1 << 20, 69632)
    assert geometry.fits_small(b"k" * 10, PAGE_BYTES - RECORD_BYTES - 10)
    assert not geometry.fits_small(b"k" * 10, PAGE_BYTES - RECORD_BYTES - 9)
    assert geometry.parts(0) == geometry.parts(65536) == 1
    assert geometry.parts(65537) == 2
