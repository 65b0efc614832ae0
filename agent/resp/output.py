"""What a connection still has to send: replies in the order of the commands, values straight from where they lie."""

from collections import deque
from itertools import islice
from typing import NamedTuple

from agent.engines.checksum import Piece
from agent.engines.dram import Value, pieces_of
from agent.stats import Histogram

MAX_BUFFERS = 64
"""Buffers of one send: 4 MiB of chunks, more than a socket takes at once."""
JOIN_BYTES = 4 << 10
"""Replies below this size are joined with their neighbours rather than sent from where they are."""


class Slot:
    """The place of a reply that is not known yet; what comes after it waits."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[bytes | Value] | None = None


class Mark(NamedTuple):
    """Ends the reply of one command: where to count its duration, and when it began (`time.perf_counter`)."""

    histogram: Histogram
    started_s: float


class Output:
    """Queue of bytes and values. A value stays alive until its last byte is sent."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        """Bytes that are known and not sent."""
        self.sent_bytes = 0
        self._ready: deque[Piece] = deque()
        self._values: deque[tuple[int, Value]] = deque()
        self._end = 0
        self._waiting: deque[Slot | bytes | Value | Mark] = deque()
        self.marks: list[Mark] = []
        """Commands whose reply is ready in full."""
        self._joinable: list[bytes] = []

    @property
    def slots(self) -> int:
        """Number of entries that wait for a reply which is not known yet."""
        return len(self._waiting)

    def push(self, reply: bytes) -> None:
        """Append encoded bytes."""
        if self._waiting:
            self._waiting.append(reply)
        else:
            self._append(reply)

    def push_mark(self, mark: Mark) -> None:
        """Append the end of a command's reply."""
        if self._waiting:
            self._waiting.append(mark)
        else:
            self.marks.append(mark)

    def push_value(self, value: Value, start: int = 0, length: int | None = None) -> None:
        """Append a bulk string of the bytes of `value`, or of `length` of them from `start` on."""
        size = value.size_bytes if length is None else length
        self.push(b"$%d\r\n" % size)
        if self._waiting:
            whole = size == value.size_bytes
            self._waiting.append(value if whole else b"".join(pieces_of(value.views, start, size)))
        else:
            self._append_value(value, start, size)
        self.push(b"\r\n")

    def push_slot(self) -> Slot:
        """Append the place of a reply that comes later."""
        slot = Slot()
        self._waiting.append(slot)
        return slot

    def resolve(self, slot: Slot, parts: list[bytes | Value]) -> None:
        """Fill a place; what waited behind it becomes ready up to the next one."""
        slot.parts = parts
        waiting = self._waiting
        while waiting:
            item = waiting[0]
            if isinstance(item, Slot):
                if item.parts is None:
                    return
                waiting.popleft()
                for part in item.parts:
                    self._append_any(part)
                continue
            waiting.popleft()
            if isinstance(item, Mark):
                self.marks.append(item)
            else:
                self._append_any(item)

    def next_buffers(self) -> list[Piece]:
        """Return what to send next, empty when nothing is ready."""
        self._flush_joinable()
        return list(islice(self._ready, MAX_BUFFERS))

    def sent(self, count: int) -> None:
        """Take `count` sent bytes off the queue and let go of values that are through."""
        self.queued_bytes -= count
        self.sent_bytes += count
        ready = self._ready
        while count:
            piece = ready.popleft()
            size = len(piece)
            if size > count:
                ready.appendleft(memoryview(piece)[count:])
                break
            count -= size
        values = self._values
        while values and values[0][0] <= self.sent_bytes:
            values.popleft()

    def clear(self) -> None:
        """Drop everything."""
        self._ready.clear()
        self._values.clear()
        self._waiting.clear()
        self._joinable.clear()
        self.marks.clear()
        self.queued_bytes = 0

    def _append_any(self, part: bytes | Value) -> None:
        if isinstance(part, Value):
            self._append_value(part, 0, part.size_bytes)
        else:
            self._append(part)

    def _append(self, reply: bytes) -> None:
        self.queued_bytes += len(reply)
        self._end += len(reply)
        if len(reply) < JOIN_BYTES:
            self._joinable.append(reply)
        else:
            self._flush_joinable()
            self._ready.append(reply)

    def _append_value(self, value: Value, start: int, length: int) -> None:
        if length < JOIN_BYTES:
            self._append(b"".join(pieces_of(value.views, start, length)))
            return
        self._flush_joinable()
        self._ready.extend(pieces_of(value.views, start, length))
        self.queued_bytes += length
        self._end += length
        self._values.append((self._end, value))

    def _flush_joinable(self) -> None:
        if self._joinable:
            self._ready.append(b"".join(self._joinable))
            self._joinable.clear()
