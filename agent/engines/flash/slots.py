"""Which slots are free, and which free ones still carry the header of a record that was let go of.

Nothing of this is stored: what is free is what no record holds.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence

Slots = tuple[int, ...]
"""File offsets of the slots of one record, in the order of its parts."""


class SlotSpace:
    """The slots of one size. Taken last-freed first, which keeps the slots of blocks of one size together."""

    def __init__(self, offsets: Sequence[int]) -> None:
        self.total = len(offsets)
        self._changed = threading.Condition()
        self._free = list(reversed(offsets))
        self._returned: deque[Slots] = deque()
        self._stale: dict[bytes, Slots] = {}
        self._stale_at: dict[int, bytes] = {}
        self._overwriting: set[int] = set()
        self._erasing: set[int] = set()
        self._parked: set[int] = set()

    @property
    def free(self) -> int:
        """Number of slots that `take` can hand out."""
        with self._changed:
            self._collect()
            return len(self._free)

    def take(self, count: int) -> Slots | None:
        """Return `count` slots to write to, or None when there are not enough. `written` must follow."""
        with self._changed:
            self._collect()
            if len(self._free) < count:
                return None
            taken = self._free[-count:]
            del self._free[-count:]
            if self._stale_at:
                self._overwriting.update(offset for offset in taken if offset in self._stale_at)
            taken.reverse()
            return tuple(taken)

    def written(self, slots: Slots, *, successful: bool) -> None:
        """Note that writing to `slots` has ended; after a failure their old headers may still be there."""
        if not self._overwriting:
            return
        with self._changed:
            for offset in slots:
                if offset in self._overwriting:
                    self._overwriting.discard(offset)
                    if successful:
                        self._forget_stale(offset)
            self._changed.notify_all()

    def claim(self, offsets: Iterable[int]) -> None:
        """Take slots away that a record found after a restart holds."""
        gone = set(offsets)
        with self._changed:
            self._free = [offset for offset in self._free if offset not in gone]

    def give_back(self, slots: Slots) -> None:
        """Return slots. Called by the garbage collector at any moment, so it takes no lock."""
        self._returned.append(slots)

    # --- stale headers: what a restart would find though nobody holds it ----------------------------------------------

    def note_stale(self, key: bytes, offset: int) -> None:
        """Remember that the slot at `offset` carries the first header of a record of `key` that was let go of."""
        with self._changed:
            self._remember_stale(key, offset)

    def has_stale(self, key: bytes) -> bool:
        """Tell whether such a header of `key` is left."""
        return key in self._stale

    def begin_erasing(self, key: bytes) -> int | None:
        """Return where a stale header of `key` is, and keep its slot from being taken until `end_erasing`.

        None when there is none any more. Waits while a write is just going over the last one.
        """
        with self._changed:
            while offsets := self._stale.get(key):
                offset = next((one for one in offsets if one not in self._overwriting), None)
                if offset is None:
                    self._changed.wait()
                    continue
                self._forget_stale(offset)
                self._collect()
                self._erasing.add(offset)
                if offset in self._free:
                    self._free.remove(offset)
                    self._parked.add(offset)
                return offset
            return None

    def end_erasing(self, key: bytes, offset: int, *, successful: bool) -> None:
        """Let the slot be taken again; after a failure its header counts as stale as before."""
        with self._changed:
            self._erasing.discard(offset)
            if offset in self._parked:
                self._parked.discard(offset)
                self._free.append(offset)
            if not successful:
                self._remember_stale(key, offset)

    def forget_all_stale(self) -> None:
        """Forget every stale header, as after a wipe."""
        with self._changed:
            self._stale.clear()
            self._stale_at.clear()
            self._overwriting.clear()
            self._changed.notify_all()

    def _remember_stale(self, key: bytes, offset: int) -> None:
        if offset not in self._stale_at:
            self._stale[key] = (*self._stale.get(key, ()), offset)
            self._stale_at[offset] = key

    def _forget_stale(self, offset: int) -> None:
        key = self._stale_at.pop(offset)
        rest = tuple(one for one in self._stale[key] if one != offset)
        if rest:
            self._stale[key] = rest
        else:
            del self._stale[key]

    def _collect(self) -> None:
        """Put returned slots on the stack; one whose old header is just being erased waits beside it."""
        returned = self._returned
        while returned:
            slots = returned.popleft()
            if self._erasing and not self._erasing.isdisjoint(slots):
                self._parked.update(offset for offset in slots if offset in self._erasing)
                slots = tuple(offset for offset in slots if offset not in self._erasing)
            self._free.extend(reversed(slots))
