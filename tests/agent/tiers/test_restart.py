"""What a restart finds: everything that was on flash, nothing that was deleted, replaced or expired."""

import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.engines.dram import Value
from agent.tiers import Barrier, WriteOptions
from tests.agent.harness import MIB, Plane, fill, payload, plane
from tests.agent.tiers.test_store import check_invariants, store_blocks
from tests.support.servers import wait_until


@contextmanager
def killed_copy(below: Plane, directory: Path) -> Iterator[Plane]:
    """The file as it is now, as if this process had been killed: what another one would find in it."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(below.path, directory / "flash.kvf")
    with plane(directory, dram=MIB, flash=8 * MIB) as again:
        yield again


def test_restart_brings_flash_back_in_the_order_of_age(tmp_path: Path) -> None:
    with plane(tmp_path, dram=MIB, flash=8 * MIB) as below:
        blocks = store_blocks(below, 50)
    with plane(tmp_path, dram=MIB, flash=8 * MIB) as again:
        assert again.tier("flash").stored_blocks == 40
        assert again.tier("dram").stored_blocks == 0
        for key, data in list(blocks.items())[:40]:
            assert again.get(key) == data
        assert all(again.get(key) is None for key in list(blocks)[40:]), "DRAM is lost"
        again.settle()
        check_invariants(again)
    with plane(tmp_path, dram=MIB, flash=3 * MIB, limits=(MIB, 8 * MIB)) as smaller:
        wait_until(lambda: smaller.tier("flash").stored_blocks == 31, message="shrunk to the policy")
        smaller.settle()
        check_invariants(smaller)


def test_restart_after_a_delete_finds_no_phantom(tmp_path: Path) -> None:
    with plane(tmp_path / "a", dram=0, flash=8 * MIB, limits=(MIB, 8 * MIB)) as below:
        blocks = store_blocks(below, 20)
        below.settle()
        below.store.delete(list(blocks)[:10])[1].when_done(lambda: None)
        wait_until(lambda: below.io.backlog == 0, message="erased")
        below.set(b"b10", b"new value")
        with killed_copy(below, tmp_path / "b") as again:
            assert again.store.exists(list(blocks)[:10]) == 0
            assert again.get(b"b10") in (None, b"new value")
            assert again.get(b"b11") == blocks[b"b11"]


def test_restart_expiry_that_was_changed_holds(tmp_path: Path) -> None:
    with plane(tmp_path / "a", dram=0, flash=8 * MIB, limits=(MIB, 8 * MIB)) as below:
        for key in (b"kept", b"short"):
            below.store.set(
                key, fill(below.pool, payload(key, 100_000)), WriteOptions(expires_at_s=below.clock() + 1000)
            )
        below.settle()
        below.store.set_expiry(b"kept", None)
        below.store.set_expiry(b"short", below.clock() + 0.3)
        wait_until(lambda: below.store._mover.entries[b"kept"].record.expires_at_s is None, message="rewritten")
        wait_until(lambda: below.io.backlog == 0)
        wait_until(lambda: below.store.exists([b"short"]) == 0)
        with killed_copy(below, tmp_path / "b") as again:
            assert again.store.keys() == [b"kept"]
            assert again.store.expiry(b"kept") == (True, None)


def test_flush_leaves_nothing_for_a_restart(tmp_path: Path) -> None:
    with plane(tmp_path / "a", dram=MIB, flash=8 * MIB) as below:
        store_blocks(below, 50)
        below.store.flush()
        below.settle()
        with killed_copy(below, tmp_path / "b") as again:
            assert len(again.store) == 0
        after = store_blocks(below, 30, prefix="after")
        below.settle()
        with killed_copy(below, tmp_path / "c") as again:
            assert set(again.store.keys()) <= set(after)
            assert len(again.store) == 20


@pytest.mark.parametrize("seed", range(4))
def test_restart_at_any_moment_finds_only_the_newest_confirmed_bytes(tmp_path: Path, seed: int) -> None:
    """A random history with confirmed writes and deletes; copies of the file are what a kill would leave.

    Whatever a restart finds under a key must be its last confirmed value, or the one whose write was under way.
    """
    chance = random.Random(seed)
    latest: dict[bytes, tuple[int, int] | None] = {}
    with plane(tmp_path / "live", dram=MIB // 2, flash=2 * MIB, limits=(MIB, 8 * MIB)) as below:
        for turn in range(120):
            key = b"k%d" % chance.randrange(25)
            if chance.random() < 0.2:
                _, barrier = below.store.delete([key])
                _wait(barrier)
                latest[key] = None
            else:
                size = chance.choice([500, 60_000, 150_000])
                latest[key] = (turn, size)
                assert below.set(key, payload((key, turn), size))
            if chance.random() < 0.3:
                below.get(b"k%d" % chance.randrange(25))
            if turn % 20 == 19:
                with killed_copy(below, tmp_path / f"copy{turn}") as again:
                    for found in list(again.store.keys()):
                        data = again.get(found)
                        expected = latest.get(found)
                        assert expected is not None, f"{found!r} is a phantom"
                        assert data in (None, payload((found, expected[0]), expected[1])), f"{found!r} is an old value"


def _wait(barrier: Barrier) -> None:
    done = threading.Event()
    barrier.when_done(done.set)
    assert done.wait(10)


def test_key_written_anew_while_its_evicted_record_is_being_written_leaves_no_old_bytes(tmp_path: Path) -> None:
    """v1 is on its way to flash when policy drops it; v2 is confirmed meanwhile; then the process is killed."""
    with plane(tmp_path / "a", dram=0, flash=300_000, limits=(MIB, 8 * MIB)) as below:
        gate, begun = threading.Event(), threading.Event()
        original = below.engine.write

        def slow(record: object, value: Value, scratch: object) -> int:
            if record.key == b"k":  # type: ignore[attr-defined]
                begun.set()
                gate.wait(10)
            return original(record, value, scratch)  # type: ignore[arg-type]

        below.engine.write = slow  # type: ignore[method-assign,assignment]
        below.set(b"k", payload("v1", 100_000))
        assert begun.wait(5)
        store_blocks(below, 3)
        assert below.store.exists([b"k"]) == 0, "evicted in mid-write"
        confirmed = threading.Event()
        insertion = below.store.set_many([(b"k", fill(below.pool, payload("v2", 100_000)))])
        assert insertion.admitted == [True]
        insertion.barrier.when_done(confirmed.set)
        assert not confirmed.wait(0.1), "v1 may still reach the device"
        gate.set()
        assert confirmed.wait(5)
        with killed_copy(below, tmp_path / "b") as again:
            assert again.get(b"k") in (None, payload("v2", 100_000))
