"""What every eviction algorithm answers."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from collections.abc import Set as AbstractSet


class EvictionOrder(ABC):
    """The keys of one tier in the order in which they should leave. Knows no bytes, no time and no other tier.

    A caller tells it the events of a key's life in one tier (`reserve`, `insert`, `touch`, `remove`) and asks it for
    candidates. An algorithm that needs ghosts, queues or a hand keeps them to itself.
    """

    @abstractmethod
    def insert(self, key: bytes) -> None:
        """Add `key` at its reserved place, else as the newest. Raises `ValueError` when it is there already."""

    @abstractmethod
    def touch(self, key: bytes) -> None:
        """Note a use of `key`. Raises `KeyError` when it is not there."""

    @abstractmethod
    def remove(self, key: bytes) -> None:
        """Take `key` out. Raises `KeyError` when it is not there."""

    @abstractmethod
    def reserve(self, key: bytes, *, keep_place: bool = False) -> None:
        """Hold the newest place for `key`, which is asked for now and may be inserted later; no-op when it is there.

        `keep_place` leaves an earlier reservation where it is.

        So a request that looks up first and stores what was missing afterwards leaves the same order as a request
        that does both at once. A place that grows older than every candidate may be given up.
        """

    @abstractmethod
    def forget(self, key: bytes) -> None:
        """Give up the place reserved for `key`, if there is one."""

    @abstractmethod
    def candidates(self, protected: AbstractSet[bytes]) -> Iterator[bytes]:
        """Yield the keys in the order in which they should leave, never one of `protected`.

        The caller removes each key before it asks for the next, and may insert meanwhile. One pass over the order
        skips each protected key once, so a call that needs many victims costs no more than the keys it passes.
        """

    @abstractmethod
    def oldest_first(self) -> Iterator[bytes]:
        """Yield every key once, those that would leave first in front: the order in which to restore them."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, key: object) -> bool: ...
