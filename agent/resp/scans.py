"""Cursors of SCAN: each walks a list of the keys that was taken when it began.

So every key that is there from beginning to end is returned exactly once, whatever is written meanwhile; keys that were
deleted since are left out.
"""

from collections import OrderedDict

from agent.tiers import TieredStore

MAX_SCANS = 16
POSITION_BITS = 40


class ScanCursorError(Exception):
    """The cursor is unknown; the text says what to do."""


class Scans:
    """The scans under way, at most `MAX_SCANS`; the one unused for longest gives way."""

    def __init__(self) -> None:
        self._lists: OrderedDict[int, list[bytes]] = OrderedDict()
        self._next = 1

    def next(self, cursor: int, count: int, store: TieredStore) -> tuple[int, list[bytes]]:
        """Return the following cursor (0: the scan is done) and the next keys, of `count` looked at.

        Raises:
            ScanCursorError: no scan has that cursor (any more).
        """
        number, position = divmod(cursor, 1 << POSITION_BITS)
        if cursor == 0:
            number = self._begin(store.keys())
        keys = self._lists.get(number)
        if keys is None or not 0 <= position < max(1, len(keys)):
            raise ScanCursorError("this cursor is unknown: begin again at 0")
        self._lists.move_to_end(number)
        end = position + count
        step = [key for key in keys[position:end] if store.exists([key])]
        if end < len(keys):
            return (number << POSITION_BITS) + end, step
        del self._lists[number]
        return 0, step

    def _begin(self, keys: list[bytes]) -> int:
        number = self._next
        self._next += 1
        self._lists[number] = keys
        if len(self._lists) > MAX_SCANS:
            self._lists.popitem(last=False)
        return number
