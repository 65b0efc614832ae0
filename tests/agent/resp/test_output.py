"""The output queue: order, partial sends, and values that stay alive exactly until they are sent."""

import gc
import random

from agent.engines.dram import CHUNK_BYTES, MemoryPool
from agent.resp.output import JOIN_BYTES, MAX_BUFFERS, Output, Slot
from agent.stats import Histogram
from tests.agent.harness import fill, payload


def drain(output: Output, chance: random.Random | None = None) -> bytes:
    """Send everything, in pieces of random size if `chance` is given."""
    sent = b""
    while buffers := output.next_buffers():
        assert len(buffers) <= MAX_BUFFERS
        data = b"".join(buffers)
        count = len(data) if chance is None else chance.randrange(1, len(data) + 1)
        sent += data[:count]
        output.sent(count)
    assert output.queued_bytes == 0
    return sent


def test_output_values_and_bytes_partial_sends_keep_every_byte() -> None:
    pool = MemoryPool(1 << 28)
    chance = random.Random(7)
    for _ in range(30):
        output, expected = Output(), b""
        for number in range(chance.randrange(1, 8)):
            size = chance.choice([0, 1, JOIN_BYTES - 1, JOIN_BYTES, CHUNK_BYTES, CHUNK_BYTES + 5, 300_000])
            data = payload(number, size)
            if chance.random() < 0.5:
                output.push(data)
                expected += data
            else:
                output.push(fill(pool, data))
                expected += b"$%d\r\n%b\r\n" % (size, data)
        assert output.queued_bytes == len(expected)
        assert drain(output, chance) == expected


def test_output_what_follows_an_open_slot_waits_for_it() -> None:
    output = Output()
    output.push(b"1")
    slots = [output.push_slot(), output.push_slot()]
    output.push(b"4")
    assert drain(output) == b"1"
    output.resolve(slots[1], [b"3"])
    assert drain(output) == b""
    output.resolve(slots[0], [b"2"])
    assert drain(output) == b"234"
    assert output.slots == 0


def test_output_value_memory_comes_back_only_when_sent() -> None:
    pool = MemoryPool(1 << 28)
    output = Output()
    output.push(fill(pool, payload("v", 200_000)))
    output.push(b"x" * JOIN_BYTES)
    gc.collect()
    assert pool.alive_bytes == 200_000
    output.next_buffers()
    output.sent(100_000)
    assert pool.alive_bytes == 200_000
    output.next_buffers()
    output.sent(100_100)
    assert pool.alive_bytes == 0
    assert output.queued_bytes > 0


def test_output_clear_lets_go_of_everything() -> None:
    pool = MemoryPool(1 << 28)
    output = Output()
    output.push(fill(pool, payload("v", 200_000)))
    slot = output.push_slot()
    output.push(fill(pool, payload("w", 200_000)))
    output.clear()
    assert pool.alive_bytes == 0
    assert output.queued_bytes == 0
    output.resolve(slot, [b"late"])
    assert output.next_buffers() == []


def test_output_marks_appear_when_their_reply_is_whole() -> None:
    output, histogram = Output(), Histogram()
    output.push(b"1")
    output.push_mark((histogram, 1.0))
    slot: Slot = output.push_slot()
    output.push_mark((histogram, 2.0))
    assert [began for _, began in output.marks] == [1.0]
    output.resolve(slot, [b"2"])
    assert [began for _, began in output.marks] == [1.0, 2.0]


def test_output_range_of_a_value() -> None:
    pool = MemoryPool(1 << 28)
    data = payload("v", 200_000)
    output = Output()
    output.push_range(fill(pool, data), 65_000, 70_000)
    assert drain(output) == b"$70000\r\n" + data[65_000:135_000] + b"\r\n"
