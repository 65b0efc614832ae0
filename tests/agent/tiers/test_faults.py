"""A device that refuses, lies, is slow or full: blocks are lost, never wrong, and the store goes on."""

import errno
import threading
from pathlib import Path

import pytest

from agent.engines.dram import Value
from agent.engines.flash import FlashEngine, FlashRecord
from agent.engines.io_pool import Scratch
from tests.agent.harness import KIB, MIB, plane, policy, resolve
from tests.agent.tiers.test_store import check_invariants, store_blocks
from tests.support.servers import wait_until


class FaultyEngine(FlashEngine):
    """Refuses reads or writes of chosen keys."""

    fail_writes: frozenset[bytes] = frozenset()
    fail_reads: frozenset[bytes] = frozenset()
    error = errno.EIO

    def write(self, record: FlashRecord, value: Value, scratch: Scratch) -> int:
        if record.key in self.fail_writes:
            record.space.written(record.slots, successful=False)
            raise OSError(self.error, "injected")
        return super().write(record, value, scratch)

    def read(self, record: FlashRecord, value: Value, scratch: Scratch) -> int:
        if record.key in self.fail_reads:
            raise OSError(self.error, "injected")
        return super().read(record, value, scratch)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_write_that_fails_loses_that_block_and_tells_the_decisions(tmp_path: Path, code: int) -> None:
    with plane(tmp_path, engine_type=FaultyEngine) as below:
        engine = below.engine
        assert isinstance(engine, FaultyEngine)
        engine.error = code
        engine.fail_writes = frozenset({b"b3", b"b4"})
        blocks = store_blocks(below, 30)
        below.settle()
        for key, data in blocks.items():
            assert below.get(key) == (None if key in engine.fail_writes else data)
        stats = below.store.stats
        assert stats.flash_errors["write"] == 2
        assert stats.evicted_blocks["flash", "lost"] == 2
        assert any(one.type == "FlashDegraded" for one in below.store.conditions())
        below.settle()
        check_invariants(below)
        engine.fail_writes = frozenset()
        assert below.set(b"b3", blocks[b"b3"])
        assert below.get(b"b3") == blocks[b"b3"]


def test_read_that_fails_is_a_miss_and_tells_the_decisions(tmp_path: Path) -> None:
    with plane(tmp_path, engine_type=FaultyEngine) as below:
        blocks = store_blocks(below, 30)
        below.settle()
        engine = below.engine
        assert isinstance(engine, FaultyEngine)
        engine.fail_reads = frozenset({b"b1"})
        assert below.get(b"b0") == blocks[b"b0"]
        assert below.get(b"b1") is None
        stats = below.store.stats
        assert (stats.lookup_blocks["flash"], stats.lookup_blocks["miss"]) == (1, 1)
        assert stats.flash_errors["read"] == 1
        assert stats.corrupt_blocks["flash"] == 0
        assert below.store.exists([b"b1"]) == 0
        below.settle()
        check_invariants(below)


@pytest.mark.parametrize("promote_after", [1, 5])
def test_flipped_byte_in_the_file_is_a_miss_a_counter_and_a_free_slot(tmp_path: Path, promote_after: int) -> None:
    chosen = policy(MIB, 8 * MIB, promote_after=promote_after)
    with plane(tmp_path, policy_=chosen, limits=(MIB, 8 * MIB), io="buffered") as below:
        blocks = store_blocks(below, 30)
        below.settle()
        record = below.store._mover.entries[b"b2"].record
        with below.path.open("r+b") as file:
            file.seek(record.slots[1] + 4096 + 777)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 0x40]))
        del record
        found = below.store.lookup([b"b0", b"b1", b"b2", b"b3"])
        assert [resolve(one) for one in found] == [blocks[b"b0"], blocks[b"b1"], None, blocks[b"b3"]]
        stats = below.store.stats
        assert stats.corrupt_blocks["flash"] == 1
        assert (stats.lookup_blocks["flash"], stats.lookup_blocks["miss"]) == (3, 1)
        assert stats.prefix_hit_blocks == 2
        assert below.get(b"b2") is None
        del found
        below.settle()
        check_invariants(below)


def test_corrupt_flash_copy_below_a_whole_one_in_dram_costs_nothing(tmp_path: Path) -> None:
    with plane(tmp_path, io="buffered") as below:
        blocks = store_blocks(below, 30)
        below.settle()
        assert below.get(b"b0") == blocks[b"b0"]
        below.settle()
        record = below.store._mover.entries[b"b0"].record
        with below.path.open("r+b") as file:
            file.seek(record.slots[0] + 4096)
            file.write(b"\0" * 100)
        assert below.get(b"b0") == blocks[b"b0"]
        assert below.store.stats.corrupt_blocks["flash"] == 0


def test_slow_device_does_not_let_memory_grow_without_bound(tmp_path: Path) -> None:
    """Everything waits for one write: what is alive stays within DRAM and what is on its way."""
    with plane(tmp_path, dram=MIB, flash=8 * MIB) as below:
        gate = threading.Event()
        original = below.engine.write
        below.engine.write = lambda *arguments: gate.wait(20) and original(*arguments)  # type: ignore[method-assign,return-value]
        blocks = store_blocks(below, 60)
        assert below.pool.alive_bytes == 6_000_000
        assert below.get(b"b0") == blocks[b"b0"]
        gate.set()
        below.settle()
        assert below.pool.alive_bytes == below.tier("dram").stored_bytes


def test_slots_that_run_out_before_bytes_do_lower_the_capacity_and_say_so(tmp_path: Path) -> None:
    """Blocks of 5 KiB in slots of 64 KiB: the tier holds what fits, evicts by policy, and an operator can see why."""
    with plane(tmp_path, dram=64 * KIB, flash=4 * MIB, sweep_interval_s=0.01) as below:
        slots = below.engine._bulk.total
        blocks = store_blocks(below, slots * 3, size=5000)
        wait_until(lambda: not below.store._mover.starved, message="no write waits", timeout_s=20)
        below.settle()
        assert 0 < below.tier("flash").stored_blocks <= slots
        assert any(one.type == "FlashSlotsShort" for one in below.store.conditions())
        newest = list(blocks)[-slots // 2 :]
        assert sum(below.get(key) == blocks[key] for key in newest) > len(newest) * 0.9
        below.store.delete(list(blocks))
        wait_until(lambda: not below.store.conditions(), message="the condition goes when there is room again")
        assert below.tier("flash").capacity_bytes == 4 * MIB
