"""Parses RESP requests from a stream, strictly and within limits, with large arguments received where they will stay.

A request is an array of bulk strings and nothing else: no inline command, no nesting, no other type. Lengths are plain
decimal digits. What breaks a rule is a `ProtocolError`, after which nothing more of the stream can be believed.

Small arguments are cut out of the bytes that were fed. A large one gets memory of its own as soon as its length is
known; `sink` then tells the caller to receive straight into it.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent.engines.dram import Value, pieces_of

DIRECT_BYTES = 16 << 10
"""Arguments of at least this size are received straight into memory of the pool."""
HOLD_BYTES = 64 << 10
"""Small arguments of one command are accounted for in steps of this size."""
MAX_LINE_BYTES = 16
"""Type byte, ten digits and CRLF are at most 13."""

ARRAY, BULK = b"*$"
CRLF = b"\r\n"

_LENGTH = re.compile(rb"0|[1-9][0-9]{0,9}")

Argument = bytes | Value
Allocate = Callable[[int], Value | None]


class ProtocolError(Exception):
    """The stream is not RESP, or more than is allowed. The text goes to the client before the connection is closed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may have: number of arguments, bytes of one, bytes of all."""

    arguments: int
    argument_bytes: int
    command_bytes: int


class Sink:
    """A large argument that is arriving: `remaining` bytes of `value` are still missing."""

    __slots__ = ("remaining", "value")

    def __init__(self, value: Value) -> None:
        self.value = value
        self.remaining = value.size_bytes

    def views(self) -> list[bytes | bytearray | memoryview]:
        """Return the memory that is still to be filled."""
        return pieces_of(self.value.views, self.value.size_bytes - self.remaining, self.remaining)


class RequestParser:
    """One connection's request stream.

    Feed bytes with `feed`, take commands with `next_command` until it returns None. Then either more bytes are needed,
    or `sink` is set: receive into its views and report with `filled`; or `blocked` is set: `allocate` had no memory,
    call `next_command` again when there may be some.
    """

    def __init__(self, limits: Limits, allocate: Allocate, hold: Allocate) -> None:
        """`allocate` gives memory for a large argument; `hold` accounts for small ones. None: not now."""
        self.limits = limits
        self.sink: Sink | None = None
        self.blocked = False
        self.started_s = 0.0
        """`time.perf_counter` at the first byte of the command that is arriving."""
        self.received_bytes = 0
        """Argument bytes of the command that is arriving."""
        self._allocate = allocate
        self._hold = hold
        self._holds: list[Value] = []
        self._small_bytes = 0
        self._large = 0
        self._buffer = b""
        self._at = 0
        self._arguments: list[Argument] = []
        self._missing = 0
        self._length = -1
        self._ending = False

    @property
    def holds_memory(self) -> bool:
        """Tell whether the command that is arriving has been given memory already."""
        return bool(self._holds) or self.sink is not None or self._large > 0

    @property
    def mid_command(self) -> bool:
        """Tell whether a command has begun to arrive and is not complete."""
        return self._missing > 0 or self._at < len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add bytes of the stream."""
        if self._at < len(self._buffer):
            data = self._buffer[self._at :] + data
        elif not self._missing:
            self.started_s = time.perf_counter()
        self._buffer = data
        self._at = 0

    def filled(self, count: int) -> None:
        """Note that `count` bytes were received into the sink."""
        sink = self.sink
        assert sink is not None
        sink.remaining -= count
        if sink.remaining == 0:
            sink.value.seal()
            self._arguments.append(sink.value)
            self.sink = None
            self._ending = True

    def next_command(self) -> list[Argument] | None:
        """Return the next whole command, or None when it has not arrived yet.

        Raises:
            ProtocolError: the stream broke a rule.
        """
        if not self._missing:
            count = self._header(ARRAY)
            if count is None:
                return None
            if not 0 < count <= self.limits.arguments:
                raise ProtocolError("invalid multibulk length")
            self.started_s = time.perf_counter()
            self._missing = count
            self.received_bytes = 0
        while self._missing:
            if not (self._end_of_sink() if self._ending else self._take_arguments()):
                return None
        arguments, self._arguments = self._arguments, []
        self._small_bytes = self._large = 0
        if self._holds:
            self._holds.clear()
        return arguments

    def _take_arguments(self) -> bool:
        """Take arguments out of the buffer; False when there is no more to do before more bytes or memory come."""
        if self.sink is not None:
            return False
        buffer = self._buffer
        while self._missing:
            length = self._length
            if length < 0:
                found = self._header(BULK)
                if found is None:
                    return False
                length = self._length = self._checked_length(found)
            if length >= DIRECT_BYTES:
                return self._begin_sink(length)
            at = self._at
            end = at + length
            if len(buffer) < end + 2:
                return False
            if buffer[end : end + 2] != CRLF:
                raise ProtocolError("a bulk string does not end with CRLF")
            if self._small_bytes + length > HOLD_BYTES * (1 + len(self._holds)) and not self._begin_hold():
                return False
            self._small_bytes += length
            self._arguments.append(buffer[at:end])
            self._at = end + 2
            self._length = -1
            self._missing -= 1
        return True

    def _checked_length(self, length: int) -> int:
        if length > self.limits.argument_bytes:
            raise ProtocolError("invalid bulk length")
        self.received_bytes += length
        if self.received_bytes > self.limits.command_bytes:
            raise ProtocolError("the command is too large")
        return length

    def _begin_hold(self) -> bool:
        hold = self._hold(HOLD_BYTES)
        self.blocked = hold is None
        if hold is not None:
            self._holds.append(hold)
        return hold is not None

    def _begin_sink(self, length: int) -> bool:
        value = self._allocate(length)
        self.blocked = value is None
        if value is None:
            return False
        self._length = -1
        self._large += 1
        self.sink = sink = Sink(value)
        here = memoryview(self._buffer)[self._at : self._at + length]
        self._at += len(here)
        taken = 0
        for view in sink.views():
            part = here[taken : taken + len(view)]
            memoryview(view)[: len(part)] = part
            taken += len(part)
            if taken == len(here):
                break
        self.filled(taken)
        return self.sink is None

    def _end_of_sink(self) -> bool:
        at = self._at
        ending = self._buffer[at : at + 2]
        if len(ending) == 2 and ending == CRLF:
            self._at = at + 2
            self._ending = False
            self._missing -= 1
            return True
        if ending not in (b"", b"\r"):
            raise ProtocolError("a bulk string does not end with CRLF")
        return False

    def _header(self, kind: int) -> int | None:
        """Return the number on a header line of that type, None when the line has not arrived whole."""
        buffer, at = self._buffer, self._at
        if at >= len(buffer):
            return None
        if buffer[at] != kind:
            got = chr(buffer[at]) if 32 < buffer[at] < 127 else f"\\x{buffer[at]:02x}"
            raise ProtocolError(f"expected '{kind:c}', got '{got}'")
        end = buffer.find(CRLF, at, at + MAX_LINE_BYTES)
        if end < 0:
            if len(buffer) - at >= MAX_LINE_BYTES:
                raise ProtocolError("a length line is too long")
            return None
        self._at = end + 2
        digits = buffer[at + 1 : end]
        number = _COMMON.get(digits)
        if number is not None:
            return number
        # int() alone would take b" 1", b"+1", b"1_0" and more.
        if _LENGTH.fullmatch(digits) is None:
            raise ProtocolError("invalid multibulk length" if kind == ARRAY else "invalid bulk length")
        return int(digits)


_COMMON = {b"%d" % number: number for number in range(1024)}
