"""A doubly linked list of keys with reserved places: the order on which FIFO and LRU (and later algorithms) stand."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from kvcache.eviction.base import EvictionOrder


class _Node:
    """One place in the list: `held` by a key that is there or only reserved, and `linked` until it is dropped."""

    __slots__ = ("held", "key", "linked", "newer", "older")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.older = self
        self.newer = self
        self.held = False
        self.linked = False


class LinkedOrder(EvictionOrder):
    """Keys from oldest to newest; every operation on one key is O(1)."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, _Node] = {}
        # The end closes the ring: end.newer is the oldest key, end.older the newest.
        self._end = _Node(b"")
        self._end.linked = True
        self._held = 0

    def insert(self, key: bytes) -> None:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = _Node(key)
            self._link_newest(node)
        elif node.held:
            raise ValueError(f"key {key!r} is in this order already")
        node.held = True
        self._held += 1

    def remove(self, key: bytes) -> None:
        node = self._nodes[key]
        if not node.held:
            raise KeyError(key)
        self._drop(node)
        self._held -= 1

    def reserve(self, key: bytes, *, keep_place: bool = False) -> None:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = _Node(key)
        elif node.held or keep_place:
            return
        else:
            self._unlink(node)
        self._link_newest(node)

    def forget(self, key: bytes) -> None:
        node = self._nodes.get(key)
        if node is not None and not node.held:
            self._drop(node)

    def candidates(self, protected: AbstractSet[bytes]) -> Iterator[bytes]:
        end = passed = self._end
        while True:
            if not passed.linked:  # the caller took it out meanwhile: begin again at the oldest
                passed = end
            node = passed.newer
            if node is end:
                return
            if node.key in protected:
                passed = node
            elif node.held:
                yield node.key
                if node.linked:
                    passed = node
            else:  # a reserved place older than every candidate is worth no more than a new one
                self._drop(node)

    def oldest_first(self) -> Iterator[bytes]:
        node = self._end.newer
        while node is not self._end:
            if node.held:
                yield node.key
            node = node.newer

    def __len__(self) -> int:
        return self._held

    def __contains__(self, key: object) -> bool:
        node = self._nodes.get(key) if isinstance(key, bytes) else None
        return node is not None and node.held

    def _move_to_newest(self, key: bytes) -> None:
        node = self._nodes[key]
        if not node.held:
            raise KeyError(key)
        if node is not self._end.older:
            self._unlink(node)
            self._link_newest(node)

    def _link_newest(self, node: _Node) -> None:
        end = self._end
        newest = end.older
        node.older = newest
        node.newer = end
        newest.newer = node
        end.older = node
        node.linked = True

    def _unlink(self, node: _Node) -> None:
        node.older.newer = node.newer
        node.newer.older = node.older
        node.linked = False

    def _drop(self, node: _Node) -> None:
        self._unlink(node)
        # Point nowhere: a dropped node must not keep its neighbours alive.
        node.older = node.newer = node
        del self._nodes[node.key]
