"""The flash engine on real files: round trips, restarts, corruption, crash states, refusals."""

import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config import PAGE_BYTES
from agent.engines.base import CorruptBlock, EngineError
from agent.engines.dram import CHUNK_BYTES, MemoryPool, Value
from agent.engines.flash import FlashEngine, FlashRecord
from agent.engines.flash.layout import RECORD_BYTES
from tests.agent.harness import KIB, MIB, ROOT, fill, payload, scratch

SLOT = 68 * KIB
LIMIT = 8 * MIB
SIZES = [
    0,
    1,
    100,
    PAGE_BYTES - RECORD_BYTES - 3,
    PAGE_BYTES - RECORD_BYTES - 2,
    4096,
    65535,
    65536,
    65537,
    300_000,
    5_000_001,
]
KEY = b"key"


@pytest.fixture
def pool() -> MemoryPool:
    return MemoryPool(256 * MIB)


@pytest.fixture(params=["auto", "buffered"])
def io(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(directory: Path, io: str = "auto", limit: int = LIMIT, slot: int = SLOT) -> FlashEngine:
    return FlashEngine(directory / "flash.kvf", limit, slot, io)


def put(
    engine: FlashEngine, pool: MemoryPool, key: bytes, data: bytes, expires_at_s: float | None = None
) -> FlashRecord:
    record = engine.reserve(key, len(data), expires_at_s)
    assert record is not None
    engine.write(record, fill(pool, data), scratch())
    return record


def read(engine: FlashEngine, pool: MemoryPool, record: FlashRecord) -> bytes:
    value = pool.allocate(record.size_bytes)
    assert value is not None
    engine.read(record, value, scratch())
    assert value.intact()
    return value.tobytes()


def recovered(engine: FlashEngine, pool: MemoryPool, now_s: float = 0.0) -> dict[bytes, bytes]:
    return {record.key: read(engine, pool, record) for record in engine.recover(now_s)}


@pytest.mark.parametrize("slot", [8 * KIB, 12 * KIB, SLOT, 100 * KIB])
@pytest.mark.parametrize("size", SIZES)
def test_engine_roundtrip_also_after_a_restart(tmp_path: Path, pool: MemoryPool, io: str, size: int, slot: int) -> None:
    engine = make(tmp_path, io, slot=slot)
    data = payload(size, size)
    record = put(engine, pool, KEY, data, 1e10)
    assert read(engine, pool, record) == data
    engine.close()
    again = make(tmp_path, io, slot=slot)
    (found,) = again.recover(0.0)
    assert (found.key, found.size_bytes, found.expires_at_s) == (KEY, size, 1e10)
    assert read(again, pool, found) == data
    again.close()


def test_engine_fragmented_slots_keep_a_value_whole(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path)
    records = [put(engine, pool, b"%d" % n, payload(n, 60_000)) for n in range(100)]
    del records[::2]
    data = payload("big", 3_000_000)
    record = put(engine, pool, KEY, data)
    assert len(record.slots) == 46
    assert any(b != a + SLOT for a, b in zip(record.slots, record.slots[1:], strict=False))
    assert read(engine, pool, record) == data
    assert all(read(engine, pool, one) == payload(n * 2 + 1, 60_000) for n, one in enumerate(records))
    engine.close()


def test_engine_slots_come_back_only_when_no_reader_holds_the_record(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path, limit=0)
    total = engine._bulk.total
    records = [put(engine, pool, b"%d" % n, payload(n, 50_000)) for n in range(total)]
    assert engine.reserve(KEY, 50_000, None) is None
    assert engine._bulk.free == 0
    reader = records[5]
    engine.forget(records.pop(5))
    assert engine.reserve(KEY, 50_000, None) is None, "somebody may still read it"
    assert read(engine, pool, reader) == payload(5, 50_000)
    del reader
    assert engine.reserve(KEY, 50_000, None) is not None
    engine.close()


def test_engine_small_blocks_have_slots_of_their_own_and_fall_back(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path, limit=0)
    records = [put(engine, pool, b"%d" % n, b"small %d" % n) for n in range(engine._small.total + 3)]
    assert engine._small.free == 0
    assert engine._bulk.free == engine._bulk.total - 3
    engine.close()
    again = make(tmp_path, limit=0)
    assert recovered(again, pool) == {b"%d" % n: b"small %d" % n for n in range(len(records))}
    again.close()


# --- what must never be served ---------------------------------------------------------------------------------------


def flip(path: Path, offset: int, bit: int = 3) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize("size", [100, 65536, 150_001])
def test_engine_any_flipped_bit_that_matters_is_corrupt_and_never_bytes(
    tmp_path: Path, pool: MemoryPool, size: int
) -> None:
    engine = make(tmp_path, "buffered")
    record = put(engine, pool, KEY, payload("v", size))
    chance = random.Random(size)
    header = RECORD_BYTES + len(KEY)
    inline = size == 100
    for _ in range(150):
        part = chance.randrange(len(record.slots))
        stored = size if inline else min(65536, size - part * 65536)
        within = chance.randrange(header + stored)
        at = within if inline or within < header else PAGE_BYTES + within - header
        bit = chance.randrange(8)
        flip(tmp_path / "flash.kvf", record.slots[part] + at, bit)
        with pytest.raises(CorruptBlock):
            read(engine, pool, record)
        flip(tmp_path / "flash.kvf", record.slots[part] + at, bit)
    assert read(engine, pool, record) == payload("v", size)
    engine.close()


def test_engine_swapped_slots_are_corrupt(tmp_path: Path, pool: MemoryPool) -> None:
    """Two whole records exchanged on the device: checksums hold, key and generation do not."""
    engine = make(tmp_path, "buffered")
    first, second = put(engine, pool, b"a", payload(1, 65536)), put(engine, pool, b"b", payload(2, 65536))
    with (tmp_path / "flash.kvf").open("r+b") as file:
        file.seek(first.slots[0])
        one = file.read(SLOT)
        file.seek(second.slots[0])
        two = file.read(SLOT)
        file.seek(first.slots[0])
        file.write(two)
        file.seek(second.slots[0])
        file.write(one)
    for record in (first, second):
        with pytest.raises(CorruptBlock):
            read(engine, pool, record)
    engine.close()


def test_engine_older_generation_of_the_same_key_in_the_slot_is_corrupt(tmp_path: Path, pool: MemoryPool) -> None:
    """A lost write: the device says done and keeps the old bytes."""
    engine = make(tmp_path, "buffered")
    record = put(engine, pool, KEY, payload("old", 65536))
    path = tmp_path / "flash.kvf"
    with path.open("rb") as file:
        file.seek(record.slots[0])
        before = file.read(SLOT)
    slots = record.slots
    del record
    record = put(engine, pool, KEY, payload("new", 65536))
    assert record.slots == slots
    with path.open("r+b") as file:
        file.seek(slots[0])
        file.write(before)
    with pytest.raises(CorruptBlock):
        read(engine, pool, record)
    engine.close()


def test_engine_value_that_changed_in_memory_is_not_written(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path)
    for size in (100, 200_000):
        value = fill(pool, payload("v", size))
        memoryview(value.views[-1])[0] ^= 1
        record = engine.reserve(KEY, size, None)
        assert record is not None
        with pytest.raises(CorruptBlock, match="memory"):
            engine.write(record, value, scratch())
    engine.close()
    again = make(tmp_path)
    assert again.recover(0.0) == []
    again.close()


def test_engine_bytes_of_a_value_are_never_taken_for_a_record(tmp_path: Path, pool: MemoryPool) -> None:
    """A client stores copies of a real header at every page of its value; a restart must not find them."""
    engine = make(tmp_path)
    record = put(engine, pool, b"victim", payload("v", 65536))
    with (tmp_path / "flash.kvf").open("rb") as file:
        file.seek(record.slots[0])
        header = file.read(PAGE_BYTES)
    engine.erase(record, scratch())
    del record
    records = [put(engine, pool, b"%d" % n, header * 64) for n in range(10)]
    assert len(records) == 10
    engine.close()
    again = make(tmp_path)
    assert sorted(recovered(again, pool)) == sorted(b"%d" % n for n in range(10))
    again.close()


# --- restarts --------------------------------------------------------------------------------------------------------


def test_recover_is_oldest_first_and_generations_go_on(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path)
    kept = [put(engine, pool, key, payload(key, 70_000)) for key in (b"c", b"a", b"b")]
    engine.close()
    again = make(tmp_path)
    found = again.recover(0.0)
    assert [record.key for record in found] == [b"c", b"a", b"b"]
    newer = again.reserve(b"d", 10, None)
    assert newer is not None
    assert newer.generation > max(record.generation for record in kept)
    again.close()


def test_recover_newest_generation_of_a_key_wins_and_the_others_are_erased(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path)
    kept = [put(engine, pool, KEY, payload(n, 70_000)) for n in range(3)]
    assert len({record.slots for record in kept}) == 3
    engine.close()
    for _ in range(2):
        again = make(tmp_path)
        assert recovered(again, pool) == {KEY: payload(2, 70_000)}
        again.close()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_recover_record_that_lacks_a_part_is_not_found_nor_an_older_one(
    tmp_path: Path, pool: MemoryPool, lost: int
) -> None:
    engine = make(tmp_path, "buffered")
    old = put(engine, pool, KEY, payload("old", 70_000))
    new = put(engine, pool, KEY, payload("new", 150_000))
    engine.close()
    with (tmp_path / "flash.kvf").open("r+b") as file:
        file.seek(new.slots[lost])
        file.write(bytes(PAGE_BYTES))
    for _ in range(2):
        again = make(tmp_path, "buffered")
        assert again.recover(0.0) == [], "the old one was replaced: finding it would be worse than finding none"
        again.close()
    del old


def test_recover_torn_writes_at_every_page_give_the_block_or_nothing(tmp_path: Path, pool: MemoryPool) -> None:
    """Every prefix of the pages of a write over an older block of another key, as a power cut would leave them."""
    engine = make(tmp_path, "buffered", limit=0)
    victim = put(engine, pool, b"old", payload("old", 65536))
    slot = victim.slots[0]
    path = tmp_path / "flash.kvf"
    before = path.read_bytes()[slot : slot + SLOT]
    engine.forget(victim)
    del victim
    record = put(engine, pool, b"new", payload("new", 65536))
    assert record.slots == (slot,)
    engine.close()
    after = path.read_bytes()[slot : slot + SLOT]
    states = [after[: n * PAGE_BYTES] + before[n * PAGE_BYTES :] for n in range(SLOT // PAGE_BYTES + 1)]
    states += [before[: n * PAGE_BYTES] + after[n * PAGE_BYTES :] for n in range(1, SLOT // PAGE_BYTES)]
    seen: set[bytes | None] = set()
    for state in states:
        with path.open("r+b") as file:
            file.seek(slot)
            file.write(state)
        again = make(tmp_path, "buffered", limit=0)
        for found in again.recover(0.0):
            try:
                data = read(again, pool, found)
            except CorruptBlock:
                continue
            assert data == payload(found.key.decode(), 65536)
            seen.add(found.key)
        again.close()
    assert seen == {b"old", b"new"}


def test_recover_expired_records_are_not_found(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path)
    kept = [put(engine, pool, key, b"x" * 5000, at_s) for key, at_s in ((b"soon", 100.0), (b"later", 200.0))]
    engine.close()
    again = make(tmp_path)
    assert [record.key for record in again.recover(150.0)] == [b"later"]
    assert again.has_stale(b"soon")
    again.close()
    del kept


@pytest.mark.parametrize("size", [100, 200_000])
def test_set_expiry_holds_after_a_restart_and_not_for_an_erased_record(
    tmp_path: Path, pool: MemoryPool, size: int
) -> None:
    engine = make(tmp_path)
    record, erased = put(engine, pool, KEY, payload("v", size)), put(engine, pool, b"gone", payload("g", size))
    engine.set_expiry(record, 500.5, scratch())
    engine.erase(erased, scratch())
    engine.set_expiry(erased, 900.0, scratch())
    assert read(engine, pool, record) == payload("v", size)
    engine.close()
    again = make(tmp_path)
    (found,) = again.recover(0.0)
    assert (found.key, found.expires_at_s) == (KEY, 500.5)
    assert read(again, pool, found) == payload("v", size)
    again.close()


def test_erase_and_erase_stale_and_wipe_leave_nothing_to_find(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path)
    for size in (100, 200_000):
        record = put(engine, pool, b"erased", payload("v", size))
        engine.erase(record, scratch())
        record = put(engine, pool, b"stale", payload("v", size))
        engine.forget(record)
        assert engine.has_stale(b"stale")
        engine.erase_stale(b"stale", scratch())
        assert not engine.has_stale(b"stale")
    engine.close()
    again = make(tmp_path)
    assert again.recover(0.0) == []
    kept = [put(again, pool, b"%d" % n, payload(n, 70_000)) for n in range(5)]
    again.forget(kept[0])
    again.wipe()
    assert not again.has_stale(b"0")
    fresh = put(again, pool, b"fresh", payload("fresh", 70_000))
    assert fresh.slots
    again.close()
    last = make(tmp_path)
    assert recovered(last, pool) == {b"fresh": payload("fresh", 70_000)}
    last.close()


def test_other_slot_size_or_damaged_superblock_starts_empty(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path)
    put(engine, pool, KEY, payload("v", 70_000))
    engine.close()
    other = make(tmp_path, slot=132 * KIB)
    assert other.recover(0.0) == []
    put(other, pool, KEY, payload("w", 70_000))
    other.close()
    flip(tmp_path / "flash.kvf", 20)
    damaged = make(tmp_path, slot=132 * KIB)
    assert damaged.recover(0.0) == []
    damaged.close()


def test_file_that_grows_or_shrinks_keeps_what_still_has_a_place(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path, limit=4 * MIB)
    kept = [put(engine, pool, b"%d" % n, payload(n, 65536)) for n in range(64)]
    engine.close()
    bigger = make(tmp_path, limit=64 * MIB)
    assert len(bigger.recover(0.0)) == len(kept)
    bigger.close()
    smaller = make(tmp_path, limit=0)
    assert recovered(smaller, pool) == {b"%d" % n: payload(n, 65536) for n in range(64)}
    smaller.close()


# --- refusals of the machine -----------------------------------------------------------------------------------------


def test_file_in_use_by_another_agent_is_refused(tmp_path: Path) -> None:
    engine = make(tmp_path)
    with pytest.raises(EngineError, match="in use"):
        make(tmp_path)
    engine.close()
    make(tmp_path).close()


def test_disk_that_lacks_the_room_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"lacks \d+ MiB.*KVAGENT_FLASH_LIMIT_BYTES"):
        make(tmp_path, limit=1 << 50)
    assert (tmp_path / "flash.kvf").stat().st_size == 0


def test_path_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="KVAGENT_FLASH_FILE"):
        FlashEngine(tmp_path / "no" / "flash.kvf", LIMIT, SLOT)


def test_file_is_sparse_and_private(tmp_path: Path) -> None:
    make(tmp_path, limit=1 << 30).close()
    state = (tmp_path / "flash.kvf").stat()
    assert state.st_size > 1 << 30
    assert state.st_blocks * 512 < MIB
    assert state.st_mode & 0o777 == 0o600


def test_write_beyond_the_file_size_limit_is_an_error_and_nothing_is_found(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for a full disk: the kernel refuses part of the writes, the engine says so and goes on."""
    program = """
        import resource, signal, sys
        from pathlib import Path
        from agent.engines.dram import MemoryPool
        from agent.engines.flash import FlashEngine
        from tests.agent.harness import fill, payload, scratch
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        engine = FlashEngine(Path(sys.argv[1]), 8 << 20, 68 << 10)
        pool, memory = MemoryPool(1 << 28), scratch()
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
        stored, refused, kept = [], 0, []
        for number in range(40):
            record = engine.reserve(b"%d" % number, 150_000, None)
            try:
                engine.write(record, fill(pool, payload(number, 150_000)), memory)
                stored.append(number)
            except OSError:
                refused += 1
            kept.append(record)
        print(len(stored), refused)
        """
    path = tmp_path / "flash.kvf"
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    stored, refused = map(int, result.stdout.split())
    assert stored > 0
    assert refused > 0
    engine, pool = make(tmp_path), MemoryPool(256 * MIB)
    found = recovered(engine, pool)
    assert len(found) == stored
    assert all(data == payload(int(key), 150_000) for key, data in found.items())
    engine.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 4 MiB."""
    target = tmp_path / "disk"
    target.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(target)], check=False).returncode
    ):
        pytest.skip("mounting a tmpfs needs root")
    yield target
    subprocess.run(["umount", "-l", str(target)], check=False)


def test_disk_that_fills_up_meanwhile_refuses_some_blocks_and_serves_the_others(
    small_disk: Path, pool: MemoryPool
) -> None:
    engine = FlashEngine(small_disk / "flash.kvf", 0, 8 * KIB)
    (small_disk / "other").write_bytes(bytes(3 * MIB))
    stored: dict[int, FlashRecord] = {}
    refused: list[FlashRecord] = []
    for number in range(engine._bulk.total):
        record = engine.reserve(b"%d" % number, 4096, None)
        assert record is not None
        try:
            engine.write(record, fill(pool, payload(number, 4096)), scratch())
            stored[number] = record
        except OSError:
            refused.append(record)
    assert stored
    assert refused
    assert all(read(engine, pool, record) == payload(number, 4096) for number, record in stored.items())
    engine.close()


def test_value_of_whole_chunks_is_written_without_a_copy(tmp_path: Path, pool: MemoryPool) -> None:
    engine = make(tmp_path)
    seen: list[object] = []
    original = engine._file.writev

    def spy(buffers: list[object], offset: int) -> int:
        seen.extend(buffers)
        return original(buffers, offset)  # type: ignore[arg-type]

    engine._file.writev = spy  # type: ignore[method-assign,assignment]
    value: Value = fill(pool, payload("v", 4 * CHUNK_BYTES))
    record = engine.reserve(KEY, value.size_bytes, None)
    assert record is not None
    engine.write(record, value, scratch())
    assert [view for view in value.views if any(view is one for one in seen)] == list(value.views)
    engine.close()
