"""Memory of values: exact accounting, no reuse while anybody looks, limits."""

import threading

import pytest

from agent.engines.dram import CHUNK_BYTES, SEGMENT_BYTES, MemoryPool, pieces_of
from tests.agent.harness import MIB, fill, payload, rss_bytes

SIZES = [0, 1, 100, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 5_000_001]


@pytest.mark.parametrize("size", SIZES)
def test_value_holds_its_bytes_and_notices_a_change(size: int) -> None:
    pool = MemoryPool(64 * MIB)
    data = payload("v", size)
    value = fill(pool, data)
    assert value.tobytes() == data
    assert value.intact()
    if size:
        memoryview(value.views[-1])[-1] ^= 1
        assert not value.intact()


def test_pieces_any_range_is_that_range() -> None:
    data = payload("v", 200_000)
    value = fill(MemoryPool(MIB), data)
    for start, length in ((0, 200_000), (0, 0), (1, 1), (65_535, 2), (65_536, 65_536), (131_072, 68_928), (199_999, 1)):
        assert b"".join(pieces_of(value.views, start, length)) == data[start : start + length]


def test_pool_counts_what_is_alive_and_refuses_beyond_the_limit() -> None:
    pool = MemoryPool(300_000)
    first, second = pool.allocate(200_000), pool.allocate(100_000)
    assert first is not None
    assert second is not None
    assert pool.allocate(1) is None
    assert pool.starved
    assert pool.allocate(1, overdraft=True) is not None
    del first
    assert pool.alive_bytes == 100_000
    assert pool.allocate(200_000) is not None


def test_pool_tells_when_memory_came_back_only_if_somebody_waits() -> None:
    pool = MemoryPool(100_000)
    calls = []
    pool.on_freed = lambda: calls.append(1)
    value = pool.allocate(100_000)
    del value
    assert not calls
    value = pool.allocate(100_000)
    assert pool.allocate(1) is None
    del value
    assert calls


def test_pool_never_hands_out_memory_that_somebody_still_sees() -> None:
    pool = MemoryPool(64 * MIB)
    kept = fill(pool, payload("kept", 3 * CHUNK_BYTES))
    views = kept.views
    for number in range(50):
        fill(pool, payload(number, 4 * CHUNK_BYTES))
    assert b"".join(views) == payload("kept", 3 * CHUNK_BYTES)


def test_pool_reuses_chunks_rather_than_growing() -> None:
    pool = MemoryPool(64 * MIB)
    for _ in range(200):
        pool.allocate(MIB)
    assert pool.mapped_bytes == SEGMENT_BYTES


def test_pool_trim_gives_memory_back_to_the_system() -> None:
    pool = MemoryPool(128 * MIB)
    values = [pool.allocate(MIB) for _ in range(64)]
    before = rss_bytes()
    del values
    assert pool.trim(8 * MIB) >= 48 * MIB
    assert rss_bytes() < before - 40 * MIB
    again = fill(pool, payload("again", 20 * MIB))
    assert again.tobytes() == payload("again", 20 * MIB)


def test_pool_adopt_and_hold_are_counted() -> None:
    pool = MemoryPool(1000)
    value = pool.adopt(b"x" * 400)
    assert value is not None
    assert value.tobytes() == b"x" * 400
    assert value.intact()
    held = pool.hold(500)
    assert held is not None
    assert pool.alive_bytes == 900
    assert pool.hold(500) is None
    assert not pool.crowded()
    over = pool.adopt(b"x" * 400)
    assert over is not None
    assert pool.crowded()
    with pytest.raises(ValueError, match="chunk"):
        pool.adopt(bytes(CHUNK_BYTES))


def test_pool_from_many_threads_stays_exact() -> None:
    pool = MemoryPool(256 * MIB)
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(150):
            data = payload((number, turn), 70_000 + turn)
            value = fill(pool, data)
            if value.tobytes() != data or not value.intact():
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.alive_bytes == 0
