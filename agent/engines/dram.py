"""Memory for values: a pool of prefaulted 64 KiB chunks, handed out by reference and taken back by reference count.

A `Value` owns its memory for as long as anybody refers to it: the tier that stores it, the connection that sends it,
the thread that writes it to flash. The memory comes back to the pool when the last of them lets go, whichever thread
that is, so a value on its way out can never be overwritten, and no lease can be forgotten.

Chunks are all of one size, hence nothing fragments. What is left of a value after its whole chunks lies on the heap.
"""

import mmap
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from agent.engines.checksum import Piece, checksum

CHUNK_BYTES = 64 << 10
SEGMENT_BYTES = 8 << 20
"""The pool grows by this much; the kernel faults a segment in at once, which costs a few milliseconds."""


class Chunk(NamedTuple):
    """One piece of a segment."""

    view: memoryview
    segment: mmap.mmap
    offset: int


class Value:
    """Bytes of one block and their checksum. Not changed any more once it is stored.

    Attributes:
        views: the bytes, in order; all but the last are whole chunks of the pool.
        size_bytes: their sum.
        crc32c: CRC-32C over all of them; None until `seal`.
    """

    __slots__ = ("_chunks", "_pool", "crc32c", "size_bytes", "views")

    def __init__(self, pool: "MemoryPool", chunks: tuple[Chunk, ...], views: tuple[Piece, ...], size_bytes: int):
        self._pool = pool
        self._chunks = chunks
        self.views = views
        self.size_bytes = size_bytes
        self.crc32c: int | None = None

    def __del__(self) -> None:
        self._pool._give_back(self._chunks, self.size_bytes)

    def seal(self) -> None:
        """Fix the checksum once all bytes are there."""
        self.crc32c = checksum(self.views)

    def intact(self) -> bool:
        """Tell whether the bytes are still those that were sealed."""
        return checksum(self.views) == self.crc32c

    def tobytes(self) -> bytes:
        """Return a copy of all bytes."""
        return b"".join(self.views)


def pieces_of(views: tuple[Piece, ...], start: int, length: int) -> list[Piece]:
    """Return views of `length` bytes from `start` on; all of `views` but the last are whole chunks."""
    pieces: list[Piece] = []
    index, start = divmod(start, CHUNK_BYTES)
    while length > 0:
        view = views[index]
        part = view if start == 0 and length >= len(view) else memoryview(view)[start : start + length]
        pieces.append(part)
        length -= len(part)
        start = 0
        index += 1
    return pieces


class MemoryPool:
    """Hands out memory for values, up to a limit on all that are alive: stored, arriving, leaving, being written."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.on_freed: Callable[[], None] | None = None
        """Called (from any thread, must not block) after memory came back while `starved` was set."""
        self.starved = False
        self._lock = threading.Lock()
        self._warm: list[Chunk] = []
        self._cold: list[Chunk] = []
        self._returned: deque[tuple[tuple[Chunk, ...], int]] = deque()
        self._alive_bytes = 0
        self._mapped_bytes = 0

    @property
    def alive_bytes(self) -> int:
        """Bytes of all values that somebody refers to."""
        with self._lock:
            self._collect()
            return self._alive_bytes

    def crowded(self) -> bool:
        """Tell whether more is alive than the limit allows (as overdrafts and small values may bring about)."""
        # What came back and was not collected only makes the first look pessimistic, so most calls need no lock.
        return self._alive_bytes > self.limit_bytes and self.alive_bytes > self.limit_bytes

    @property
    def mapped_bytes(self) -> int:
        """Bytes of all segments, in use or not."""
        return self._mapped_bytes

    def allocate(self, size_bytes: int, *, overdraft: bool = False) -> Value | None:
        """Return writable memory for `size_bytes`, or None (and `starved` set) when the limit is reached.

        `overdraft` goes past the limit: for whoever must finish so that others get on.
        """
        with self._lock:
            if not overdraft and not self._has_room(size_bytes):
                return None
            self._collect()
            self._alive_bytes += size_bytes
            count, rest = divmod(size_bytes, CHUNK_BYTES)
            chunks = self._take(count) if count else ()
        views: list[Piece] = [chunk.view for chunk in chunks]
        if rest:
            views.append(memoryview(bytearray(rest)))
        return Value(self, chunks, tuple(views), size_bytes)

    def adopt(self, data: bytes, *, overdraft: bool = True) -> Value | None:
        """Return a sealed value around less than a chunk of bytes, not copied; None when the limit is reached."""
        if len(data) >= CHUNK_BYTES:
            raise ValueError(f"{len(data)} bytes are a chunk or more: allocate and fill them")
        value = self.hold(len(data), overdraft=overdraft)
        if value is not None:
            value.views = (data,) if data else ()
            value.seal()
        return value

    def hold(self, size_bytes: int, *, overdraft: bool = False) -> Value | None:
        """Return a value without memory that counts as `size_bytes` while it lives, for memory held elsewhere."""
        with self._lock:
            if not overdraft and not self._has_room(size_bytes):
                return None
            self._alive_bytes += size_bytes
        return Value(self, (), (), size_bytes)

    def trim(self, keep_bytes: int) -> int:
        """Give the memory of free chunks above `keep_bytes` back to the system; return how many bytes went."""
        with self._lock:
            self._collect()
            excess = len(self._warm) - keep_bytes // CHUNK_BYTES
            if excess <= 0:
                return 0
            surplus, self._warm = self._warm[:excess], self._warm[excess:]
            self._cold.extend(surplus)
        for chunk in surplus:
            chunk.segment.madvise(mmap.MADV_DONTNEED, chunk.offset, CHUNK_BYTES)
        return len(surplus) * CHUNK_BYTES

    def _give_back(self, chunks: tuple[Chunk, ...], size_bytes: int) -> None:
        # Called by the garbage collector at any moment, perhaps inside `allocate`: no lock here, an append is atomic.
        self._returned.append((chunks, size_bytes))
        if self.starved and self.on_freed is not None:
            self.on_freed()

    def _has_room(self, size_bytes: int) -> bool:
        if self._alive_bytes + size_bytes <= self.limit_bytes:
            return True
        self.starved = True
        # Only now look at what came back: whatever comes later sees `starved` and calls.
        self._collect()
        return self._alive_bytes + size_bytes <= self.limit_bytes

    def _collect(self) -> None:
        returned = self._returned
        while returned:
            chunks, size_bytes = returned.popleft()
            self._alive_bytes -= size_bytes
            self._warm.extend(reversed(chunks))

    def _take(self, count: int) -> tuple[Chunk, ...]:
        """Return `count` chunks, the most recently used first, for these are the ones in the processor's caches."""
        while len(self._warm) < count:
            if self._cold:
                self._warm.append(self._cold.pop())
            else:
                self._grow()
        taken = self._warm[-count:]
        del self._warm[-count:]
        taken.reverse()
        return tuple(taken)

    def _grow(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        segment = mmap.mmap(-1, SEGMENT_BYTES, flags=flags)
        whole = memoryview(segment)
        chunks = [Chunk(whole[at : at + CHUNK_BYTES], segment, at) for at in range(0, SEGMENT_BYTES, CHUNK_BYTES)]
        self._warm[:0] = reversed(chunks)
        self._mapped_bytes += SEGMENT_BYTES
