"""The tiered store: bytes follow decisions, whatever happens between the two."""

import random
import threading
from pathlib import Path

import pytest

from agent.engines.dram import Value
from agent.tiers import BlockRead, TieredStore, WriteOptions
from kvcache.tiering import Tier
from tests.agent.harness import KIB, MIB, Clock, Plane, fill, payload, plane, policy, resolve
from tests.support.servers import wait_until


def store_blocks(below: Plane, count: int, size: int = 100_000, prefix: str = "b") -> dict[bytes, bytes]:
    blocks = {f"{prefix}{n}".encode(): payload(f"{prefix}{n}", size) for n in range(count)}
    for key, data in blocks.items():
        assert below.set(key, data)
    return blocks


def test_blocks_beyond_dram_go_to_flash_and_come_back_right(tmp_path: Path) -> None:
    with plane(tmp_path, dram=MIB, flash=8 * MIB) as below:
        blocks = store_blocks(below, 60)
        assert below.tier("dram").stored_blocks == 10
        assert below.tier("flash").stored_blocks == 50
        below.settle()
        assert below.pool.alive_bytes == below.tier("dram").stored_bytes
        for key, data in blocks.items():
            assert below.get(key) == data
        stats = below.store.stats
        assert stats.lookup_blocks["miss"] == 0
        assert stats.lookup_blocks["flash"] > 0
        assert stats.moved_blocks[Tier.DRAM, Tier.FLASH] >= 50
        assert stats.moved_blocks[Tier.FLASH, Tier.DRAM] > 0


def test_block_being_demoted_is_readable_all_the_time(tmp_path: Path) -> None:
    """The device is stopped in mid-write: the block is served from memory; then it is on flash and memory is free."""
    with plane(tmp_path, dram=MIB, flash=8 * MIB) as below:
        gate = threading.Event()
        original = below.engine.write
        below.engine.write = lambda *arguments: gate.wait(10) and original(*arguments)  # type: ignore[method-assign,return-value]
        blocks = store_blocks(below, 15)
        entry = below.store._mover.entries[b"b0"]
        assert not entry.in_dram
        assert entry.record is None
        assert below.get(b"b1") == blocks[b"b1"]
        gate.set()
        below.settle()
        assert below.pool.alive_bytes == below.tier("dram").stored_bytes
        assert all(below.get(key) == data for key, data in blocks.items())


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("promote_after", [1, 3])
def test_promotion_with_and_without_keeping_the_flash_copy(tmp_path: Path, keep: bool, promote_after: int) -> None:
    chosen = policy(MIB, 8 * MIB, promote_after=promote_after, keep=keep)
    with plane(tmp_path, policy_=chosen, limits=(MIB, 8 * MIB)) as below:
        blocks = store_blocks(below, 30)
        below.settle()
        chance = random.Random(1)
        for _ in range(200):
            key = chance.choice(list(blocks))
            assert below.get(key) == blocks[key]
        below.settle()
        assert below.pool.alive_bytes == below.tier("dram").stored_bytes
        if not keep:
            assert below.tier("dram").stored_blocks + below.tier("flash").stored_blocks == 30
        assert below.store.stats.moved_blocks[Tier.FLASH, Tier.DRAM] > 0


def test_get_of_a_block_that_leaves_flash_while_it_waits_is_still_right(tmp_path: Path) -> None:
    """The answer was promised when the key was looked up; reading begins only after the block was dropped."""
    with plane(tmp_path, dram=0, flash=2 * MIB, limits=(MIB, 2 * MIB)) as below:
        blocks = store_blocks(below, 20)
        below.settle()
        found = below.store.lookup([b"b0"])[0]
        assert isinstance(found, BlockRead)
        below.store.delete([b"b1"])
        store_blocks(below, 40, prefix="c")
        assert below.store.exists([b"b0"]) == 0
        assert resolve(found) == blocks[b"b0"]


def test_read_that_meets_a_deletion_is_right_or_a_miss(tmp_path: Path) -> None:
    with plane(tmp_path, dram=0, flash=4 * MIB, limits=(MIB, 4 * MIB)) as below:
        blocks = store_blocks(below, 20)
        below.settle()
        found = {key: below.store.lookup([key])[0] for key in blocks}
        below.store.delete(list(blocks))
        for key, one in found.items():
            assert resolve(one) in (None, blocks[key])
        assert below.store.stats.corrupt_blocks["flash"] == 0


def test_many_readers_of_one_block_share_one_read(tmp_path: Path) -> None:
    with plane(tmp_path, dram=MIB, flash=8 * MIB) as below:
        blocks = store_blocks(below, 30)
        below.settle()
        gate = threading.Event()
        original = below.engine.read
        below.engine.read = lambda *arguments: gate.wait(10) and original(*arguments)  # type: ignore[method-assign,return-value]
        found = [below.store.lookup([b"b0"])[0] for _ in range(10)]
        assert all(isinstance(one, BlockRead) for one in found)
        before = below.store.stats.flash_read_bytes
        gate.set()
        assert [resolve(one) for one in found] == [blocks[b"b0"]] * 10
        assert below.store.stats.flash_read_bytes - before < 2 * 2 * 68 * KIB
        assert below.store.stats.lookup_blocks["flash"] == 1
        assert below.store.stats.lookup_blocks["dram"] == 9


def test_expiry_by_command_and_by_policy(tmp_path: Path) -> None:
    clock = Clock()
    chosen = policy(MIB, 8 * MIB, ttl_s=100.0)
    with plane(tmp_path, policy_=chosen, limits=(MIB, 8 * MIB), clock=clock, sweep_interval_s=0.01) as below:
        below.store.set(b"short", fill(below.pool, b"v" * 5000), WriteOptions(expires_at_s=clock.now_s + 10))
        below.store.set(b"long", fill(below.pool, b"v" * 5000), WriteOptions())
        clock.now_s += 11
        assert below.store.exists([b"short"]) == 0
        assert below.get(b"short") is None
        assert below.get(b"long") is not None
        clock.now_s += 99
        assert below.get(b"long") is not None, "its time runs from its last use"
        clock.now_s += 101
        wait_until(lambda: len(below.store) == 0, message="swept")
        assert below.pool.alive_bytes == 0
        assert below.store.stats.evicted_blocks["dram", "expire"] == 2


def test_conditional_writes_are_decided_with_their_condition(tmp_path: Path) -> None:
    with plane(tmp_path) as below:
        write = below.store.set
        new = lambda: fill(below.pool, b"x" * 5000)  # noqa: E731
        assert not write(b"k", new(), WriteOptions(only_if_present=True)).done
        assert write(b"k", new(), WriteOptions(only_if_present=False)).done
        assert not write(b"k", new(), WriteOptions(only_if_present=False)).done
        assert write(b"k", new(), WriteOptions(only_if_present=True)).done
        assert below.store.stats.set_blocks == 2


def test_both_tiers_off_refuse_everything_and_serve_on(tmp_path: Path) -> None:
    with plane(tmp_path, dram=0, flash=0, limits=(MIB, MIB)) as below:
        assert not below.set(b"k", b"v")
        assert below.get(b"k") is None
        assert below.store.stats.set_refused["no_room"] == 1


def test_only_flash_serves_from_the_first_moment(tmp_path: Path) -> None:
    with plane(tmp_path, dram=0, flash=8 * MIB, limits=(MIB, 8 * MIB)) as below:
        blocks = store_blocks(below, 20)
        assert all(below.get(key) == data for key, data in blocks.items())
        below.settle()
        assert below.pool.alive_bytes == 0
        assert all(below.get(key) == data for key, data in blocks.items())
        assert below.store.stats.moved_blocks[Tier.DRAM, Tier.FLASH] == 0


def test_block_that_changed_in_memory_is_a_miss_and_a_counter(tmp_path: Path) -> None:
    with plane(tmp_path) as below:
        blocks = store_blocks(below, 3)
        value = below.store._mover.entries[b"b1"].value
        assert value is not None
        memoryview(value.views[0])[1234] ^= 1
        del value
        assert [resolve(one) for one in below.store.lookup(list(blocks))] == [blocks[b"b0"], None, blocks[b"b2"]]
        stats = below.store.stats
        assert stats.corrupt_blocks["dram"] == 1
        assert (stats.lookup_blocks["dram"], stats.lookup_blocks["miss"]) == (2, 1)
        assert stats.prefix_hit_blocks == 1
        assert below.store.exists([b"b1"]) == 0
        assert below.tier("dram").stored_blocks == 2


def test_block_that_changed_in_memory_before_demotion_never_reaches_flash(tmp_path: Path) -> None:
    with plane(tmp_path) as below:
        store_blocks(below, 10)
        value = below.store._mover.entries[b"b0"].value
        assert value is not None
        memoryview(value.views[0])[1234] ^= 1
        del value
        store_blocks(below, 5, prefix="c")
        below.settle()
        assert below.get(b"b0") is None
        assert below.store.stats.corrupt_blocks["dram"] == 1


def test_random_work_from_many_threads_never_gives_wrong_bytes(tmp_path: Path) -> None:
    """Readers, writers, deleters and a policy that changes: right bytes or a miss, and exact accounts at the end."""
    wrong: list[object] = []
    with plane(tmp_path, dram=MIB, flash=3 * MIB, inflight=32 * MIB, limits=(2 * MIB, 4 * MIB)) as below:

        def work(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(250):
                number = chance.randrange(120)
                key = b"k%d" % number
                size = 1000 + number * 1000
                match chance.randrange(10):
                    case 0:
                        below.store.delete([key])
                    case 1 | 2 | 3 | 4:
                        below.set(key, payload(number, size))
                    case 5:
                        below.store.set_expiry(key, below.clock() + chance.choice([0.001, 100]))
                    case _:
                        keys = [b"k%d" % chance.randrange(120) for _ in range(chance.randrange(1, 8))]
                        for one, data in zip(keys, map(resolve, below.store.lookup(keys)), strict=True):
                            index = int(one[1:])
                            if data is not None and data != payload(index, 1000 + index * 1000):
                                wrong.append((one, len(data)))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for turn in range(12):
            below.store.apply_policy(policy((turn % 3) * MIB // 2, (1 + turn % 4) * MIB, keep=turn % 2 == 0))
            threads[turn % 6].join(0.1)
        for thread in threads:
            thread.join()
        below.store.apply_policy(policy(MIB, 3 * MIB))
        below.settle()
        wait_until(lambda: below.pool.alive_bytes == below.tier("dram").stored_bytes, message="exact memory")
        check_invariants(below)
    assert not wrong


def check_invariants(below: Plane) -> None:
    """What is there is exactly what was decided."""
    store: TieredStore = below.store
    with store._lock:
        entries = store._mover.entries
        assert sorted(entries) == sorted(store._cache.keys())
        for key, entry in entries.items():
            copies = store._cache.copies_of(key)
            assert entry.in_dram == (Tier.DRAM in copies)
            assert entry.in_flash == (Tier.FLASH in copies)
            assert isinstance(entry.value, Value) == entry.in_dram
            assert (entry.record is not None) == entry.in_flash
    used = sum(len(entry.record.slots) for entry in entries.values() if entry.record is not None)
    space = below.engine._small.total + below.engine._bulk.total
    wait_until(lambda: below.engine._small.free + below.engine._bulk.free == space - used, message="no slot is lost")
