"""What a connection still has to send: replies in the order of the commands, values straight from where they lie."""

from collections import deque
from itertools import islice

from agent.engines.checksum import Piece
from agent.engines.dram import Value, pieces_of
from agent.stats import Histogram

MAX_BUFFERS = 64
"""Buffers of one send: 4 MiB of chunks, more than a socket takes at once."""
JOIN_BYTES = 4 << 10
"""Replies below this size are joined with their neighbours rather than sent from where they are."""
CRLF = b"\r\n"

Part = bytes | Value
"""Encoded bytes, or a value to be sent as a bulk string."""
Mark = tuple[Histogram, float]
"""Ends the reply of one command: where to count its duration, and when it began (`time.perf_counter`)."""


class Slot:
    """The place of a reply that is not known yet; what comes after it waits."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] | None = None


class Output:
    """Queue of bytes and values. A value stays alive until its last byte is sent."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        """Bytes that are known and not sent."""
        self.marks: list[Mark] = []
        """Commands whose reply is ready in full."""
        self._sent_bytes = 0
        self._end = 0
        self._ready: deque[Piece] = deque()
        self._joinable: list[bytes] = []
        self._values: deque[tuple[int, Value]] = deque()
        self._waiting: deque[Slot | Part | Mark] = deque()

    @property
    def slots(self) -> int:
        """Number of entries that wait for a reply which is not known yet."""
        return len(self._waiting)

    def push(self, part: Part) -> None:
        """Append a reply."""
        if self._waiting:
            self._waiting.append(part)
        else:
            self._append(part)

    def push_range(self, value: Value, start: int, length: int) -> None:
        """Append a bulk string of `length` bytes of `value` from `start` on."""
        self.push(b"$%d\r\n%b\r\n" % (length, b"".join(pieces_of(value.views, start, length))))

    def push_mark(self, mark: Mark) -> None:
        """Append the end of a command's reply."""
        if self._waiting:
            self._waiting.append(mark)
        else:
            self.marks.append(mark)

    def push_slot(self) -> Slot:
        """Append the place of a reply that comes later."""
        slot = Slot()
        self._waiting.append(slot)
        return slot

    def resolve(self, slot: Slot, parts: list[Part]) -> None:
        """Fill a place; what waited behind it becomes ready up to the next one."""
        slot.parts = parts
        waiting = self._waiting
        while waiting:
            item = waiting[0]
            if isinstance(item, Slot):
                if item.parts is None:
                    return
                for part in item.parts:
                    self._append(part)
            elif isinstance(item, tuple):
                self.marks.append(item)
            else:
                self._append(item)
            waiting.popleft()

    def next_buffers(self) -> list[Piece]:
        """Return what to send next, empty when nothing is ready."""
        if self._joinable:
            self._join()
        ready = self._ready
        return list(ready) if len(ready) <= MAX_BUFFERS else list(islice(ready, MAX_BUFFERS))

    def sent(self, count: int) -> None:
        """Take `count` sent bytes off the queue and let go of values that are through."""
        self.queued_bytes -= count
        self._sent_bytes += count
        ready, values = self._ready, self._values
        if not self.queued_bytes:
            ready.clear()
            values.clear()
            return
        while count:
            piece = ready.popleft()
            size = len(piece)
            if size > count:
                ready.appendleft(memoryview(piece)[count:])
                break
            count -= size
        while values and values[0][0] <= self._sent_bytes:
            values.popleft()

    def clear(self) -> None:
        """Drop everything."""
        self.queued_bytes = 0
        for queue in (self._ready, self._joinable, self._values, self._waiting, self.marks):
            queue.clear()

    def _append(self, part: Part) -> None:
        if isinstance(part, Value):
            self._append_value(part)
            return
        size = len(part)
        self.queued_bytes += size
        self._end += size
        if size >= JOIN_BYTES:
            self._join()
            self._ready.append(part)
        else:
            self._joinable.append(part)

    def _append_value(self, value: Value) -> None:
        size = value.size_bytes
        if size < JOIN_BYTES:
            self._append(b"$%d\r\n%b\r\n" % (size, b"".join(value.views)))
            return
        self._append(b"$%d\r\n" % size)
        self._join()
        self._ready.extend(value.views)
        self.queued_bytes += size
        self._end += size
        self._values.append((self._end, value))
        self._append(CRLF)

    def _join(self) -> None:
        joinable = self._joinable
        if joinable:
            self._ready.append(joinable[0] if len(joinable) == 1 else b"".join(joinable))
            joinable.clear()
