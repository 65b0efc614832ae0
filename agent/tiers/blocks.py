"""What the store keeps of one block, and what a reader gets for it."""

import threading
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from agent.engines.dram import Value

MISS = "miss"
Deliver = Callable[[Value | None], None]


class Writing(Enum):
    """Whether a block is on its way to flash."""

    NO = "no"
    QUEUED = "queued"
    RUNNING = "running"


class Entry:
    """One key: what was decided for it (`in_dram`, `in_flash`), and what there is (`value`, `record`).

    The two differ while bytes are on their way. An entry is `closed` when its key was deleted, replaced or dropped from
    every tier; jobs that still hold it then only clean up behind themselves.
    """

    __slots__ = (
        "closed", "demoted", "in_dram", "in_flash", "key", "on_whole", "on_written", "read", "record", "size_bytes",
        "value", "writing",
    )  # fmt: skip

    def __init__(self, key: bytes, size_bytes: int) -> None:
        self.key = key
        self.size_bytes = size_bytes
        self.in_dram = False
        self.in_flash = False
        self.demoted = False
        """Whether the copy on flash came down from DRAM."""
        self.closed = False
        self.value: Value | None = None
        self.record: Any = None
        self.read: ReadJob | None = None
        self.writing = Writing.NO
        self.on_written: Sequence[Barrier] = ()
        """Who waits for a record that is just being written to be erased: the key was deleted or written anew."""
        self.on_whole: Sequence[Barrier] = ()
        """Who waits for such a record to get another expiry."""


class ReadJob:
    """One block being read from flash, for everybody who wants it at this time."""

    __slots__ = ("entry", "record", "waiters")

    def __init__(self, entry: Entry, record: Any) -> None:
        self.entry = entry
        self.record = record
        self.waiters: list[BlockRead] = []


class Barrier:
    """Counts erasures that must be on the device before a command is answered."""

    __slots__ = ("_open", "_then")

    def __init__(self) -> None:
        self._open = 0
        self._then: Callable[[], None] | None = None

    @property
    def pending(self) -> bool:
        """Tell whether something is outstanding."""
        return self._open > 0

    def add(self) -> None:
        """Expect one more."""
        with _barriers:
            self._open += 1

    def done(self) -> None:
        """Note that one has ended."""
        with _barriers:
            self._open -= 1
            then = self._then if self._open == 0 else None
        if then is not None:
            then()

    def when_done(self, then: Callable[[], None]) -> None:
        """Call `then` once nothing is outstanding: now, or later from an I/O thread."""
        with _barriers:
            if self._open:
                self._then = then
                return
        then()


_barriers = threading.Lock()
"""One for all: most barriers are never waited for, and making a lock for each costs more than the rare meeting."""


class Tally:
    """Outcome of one read request: who was a hit is known for certain only when all bytes were checked."""

    __slots__ = ("pending", "results")

    def __init__(self, results: list[str]) -> None:
        self.results = results
        """Per key `dram`, `flash` or `miss`."""
        self.pending = 0


class BlockRead:
    """A block of which the bytes are still on flash. They stay right and readable until this object is let go of."""

    __slots__ = ("_begin", "done", "entry", "index", "record", "size_bytes", "tally", "then", "value")

    def __init__(
        self, entry: Entry, tally: Tally | None, index: int, begin: Callable[["BlockRead", Deliver], None]
    ) -> None:
        self.entry = entry
        self.record = entry.record
        self.size_bytes = entry.size_bytes
        self.tally = tally
        self.index = index
        self.done = False
        self.value: Value | None = None
        self.then: Deliver | None = None
        self._begin = begin

    def begin(self, then: Deliver) -> None:
        """Read the block, unless that is under way, and call `then` with it, or with None: it was no hit after all.

        `then` may be called at once, or later from an I/O thread. Call this once.
        """
        self._begin(self, then)


Found = Value | BlockRead | None
"""Answer for one key: its bytes, bytes that must still be read, or a miss."""
