"""When copies expire: a heap with at most one live entry per key."""

import heapq

from kvcache.tiering.block import NEVER

_SLACK = 1024


class Deadlines:
    """Keys by the earliest moment at which something of them may expire.

    A use moves a deadline later without telling the heap; the entry is looked at when its old moment comes and is
    put back. So a use costs nothing, and a key has one entry however often it is used.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, bytes]] = []
        self._queued_s: dict[bytes, float] = {}

    def watch(self, key: bytes, at_s: float) -> None:
        """Look at `key` at `at_s` or earlier. `NEVER` is ignored."""
        if at_s < self._queued_s.get(key, NEVER):
            self._queued_s[key] = at_s
            heapq.heappush(self._heap, (at_s, key))
            if len(self._heap) > 2 * len(self._queued_s) + _SLACK:
                self._heap = [(queued_s, name) for name, queued_s in self._queued_s.items()]
                heapq.heapify(self._heap)

    def forget(self, key: bytes) -> None:
        """Stop watching `key`."""
        self._queued_s.pop(key, None)

    def pop_due(self, now_s: float) -> bytes | None:
        """Return a key to look at now and stop watching it, or None when nothing is due."""
        while self._heap and self._heap[0][0] <= now_s:
            at_s, key = heapq.heappop(self._heap)
            if self._queued_s.get(key) == at_s:
                del self._queued_s[key]
                return key
        return None
