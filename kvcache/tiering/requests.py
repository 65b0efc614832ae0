"""Remembers what a request asked for until it has stored what was missing.

Over the wire a request is two commands: read all blocks, then write the missing ones. The second names only the
missing keys, yet it must not evict the others of the same request; this memory ties the two together.
"""

from collections.abc import Iterable

MAX_REMEMBERED_KEYS = 1 << 16
"""Bound of all keys of all open requests; beyond it the oldest request is forgotten and its order becomes arrival."""


class _OpenRequest:
    __slots__ = ("keys", "missing")

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self.keys = keys
        self.missing = 0


class RequestMemory:
    """The requests with keys that were missing and are not stored yet, oldest first, within a bound."""

    def __init__(self, max_keys: int = MAX_REMEMBERED_KEYS) -> None:
        self._max_keys = max_keys
        self._requests: dict[int, _OpenRequest] = {}
        self._serial_of: dict[bytes, int] = {}
        self._keys = 0
        self._last_serial = 0

    def open(self, keys: tuple[bytes, ...], missing: Iterable[bytes]) -> list[bytes]:
        """Remember a request of `keys` and its `missing` ones; return missing keys of requests forgotten for it."""
        request = _OpenRequest(keys)
        self._last_serial += 1
        for key in missing:
            if self._serial_of.get(key) != self._last_serial:
                self.settle(key)
                self._serial_of[key] = self._last_serial
                request.missing += 1
        if not request.missing:
            return []
        self._requests[self._last_serial] = request
        self._keys += len(keys)
        forgotten: list[bytes] = []
        while self._keys > self._max_keys:
            forgotten += self._forget_oldest()
        return forgotten

    def keys_asked_with(self, key: bytes) -> tuple[bytes, ...]:
        """Return all keys of the open request that last missed `key`; empty when there is none."""
        serial = self._serial_of.get(key)
        return () if serial is None else self._requests[serial].keys

    def settle(self, key: bytes) -> None:
        """Note that `key` is no longer awaited; a request that awaits nothing more is closed."""
        serial = self._serial_of.pop(key, None)
        if serial is None:
            return
        request = self._requests[serial]
        request.missing -= 1
        if not request.missing:
            del self._requests[serial]
            self._keys -= len(request.keys)

    def _forget_oldest(self) -> list[bytes]:
        serial = next(iter(self._requests))
        awaited = [key for key in set(self._requests[serial].keys) if self._serial_of.get(key) == serial]
        for key in awaited:
            self.settle(key)
        return awaited
