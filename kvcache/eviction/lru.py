"""Least recently used."""

from kvcache.eviction.linked import LinkedOrder


class LruOrder(LinkedOrder):
    """The key used longest ago leaves first.

    Touched tail first within a request, this is exactly leaf-first LRU on the radix tree of prefixes (vLLM's free
    queue does the same): a block never outlives the blocks it depends on, and no tree is needed.
    """

    def touch(self, key: bytes) -> None:
        self._move_to_newest(key)
