"""Free slots and stale headers, including the meetings of writers and erasers."""

import threading
import time

from agent.engines.flash.slots import SlotSpace


def test_slots_taken_in_file_order_and_again_what_was_freed_last() -> None:
    space = SlotSpace(range(0, 100, 10))
    first = space.take(3)
    assert first == (0, 10, 20)
    assert space.take(2) == (30, 40)
    space.give_back(first)
    assert space.free == 8
    assert space.take(3) == (0, 10, 20)
    assert space.take(9) is None
    assert space.take(5) == (50, 60, 70, 80, 90)


def test_slots_claimed_after_a_restart_are_not_handed_out() -> None:
    space = SlotSpace(range(5))
    space.claim([1, 3])
    assert space.take(3) == (0, 2, 4)
    assert space.take(1) is None


def test_stale_header_is_known_until_its_slot_was_written() -> None:
    space = SlotSpace(range(2))
    slots = space.take(1)
    assert slots is not None
    space.note_stale(b"k", slots[0])
    space.give_back(slots)
    assert space.has_stale(b"k")
    again = space.take(1)
    assert again == slots
    assert space.has_stale(b"k"), "taken, but not written yet: a crash now would find the old header"
    space.written(again, successful=False)
    assert space.has_stale(b"k"), "the write failed: the old header may be there"
    space.give_back(again)
    assert space.take(1) == slots
    space.written(slots, successful=True)
    assert not space.has_stale(b"k")


def test_stale_slot_is_not_handed_out_while_it_is_being_erased() -> None:
    space = SlotSpace(range(2))
    slots = space.take(1)
    assert slots is not None
    space.note_stale(b"k", slots[0])
    space.give_back(slots)
    assert space.begin_erasing(b"k") == 0
    assert space.begin_erasing(b"k") is None
    assert space.take(2) is None
    assert space.take(1) == (1,)
    space.end_erasing(b"k", 0, successful=True)
    assert space.take(1) == (0,)
    assert not space.has_stale(b"k")


def test_stale_slot_that_comes_back_while_it_is_being_erased_waits() -> None:
    space = SlotSpace(range(1))
    slots = space.take(1)
    assert slots is not None
    space.note_stale(b"k", 0)
    assert space.begin_erasing(b"k") == 0
    space.give_back(slots)
    assert space.take(1) is None
    space.end_erasing(b"k", 0, successful=False)
    assert space.has_stale(b"k"), "erasing failed: the header is still there"
    assert space.take(1) == (0,)


def test_eraser_waits_for_a_write_over_the_stale_header() -> None:
    space = SlotSpace(range(1))
    slots = space.take(1)
    assert slots is not None
    space.note_stale(b"k", 0)
    space.give_back(slots)
    writing = space.take(1)
    assert writing == (0,)
    found: list[int | None] = []
    eraser = threading.Thread(target=lambda: found.append(space.begin_erasing(b"k")))
    eraser.start()
    time.sleep(0.05)
    assert not found
    space.written(writing, successful=True)
    eraser.join(5)
    assert found == [None]


def test_stale_headers_of_one_key_in_several_slots_are_all_known() -> None:
    space = SlotSpace(range(3))
    slots = space.take(3)
    assert slots is not None
    space.note_stale(b"k", 0)
    space.note_stale(b"k", 2)
    space.give_back(slots)
    assert {space.begin_erasing(b"k"), space.begin_erasing(b"k")} == {0, 2}
    assert not space.has_stale(b"k")
