"""The request-atomic semantics of the reference notes, as naive as possible: lists, and one call per request."""

from dataclasses import dataclass, field


@dataclass
class NaiveTier:
    capacity: int
    moves_on_use: bool
    sizes: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def used(self) -> int:
        return sum(self.sizes[key] for key in self.order)

    def drop(self, key: str) -> None:
        self.order.remove(key)
        del self.sizes[key]

    def can_make_room(self, size: int, request: set[str]) -> bool:
        kept = sum(self.sizes[key] for key in self.order if key in request)
        return kept + size <= self.capacity

    def victims_for(self, size: int, request: set[str]) -> list[str]:
        found: list[str] = []
        left = self.used()
        for key in self.order:
            if left + size <= self.capacity:
                break
            if key not in request:
                found.append(key)
                left -= self.sizes[key]
        return found


class NaiveCache:
    """DRAM over flash. `request` does lookup and insert at once, so nothing needs to be remembered in between."""

    def __init__(self, dram: int, flash: int, *, lru: bool, keep: bool, promote_after: int = 1) -> None:
        self.dram = NaiveTier(dram, lru)
        self.flash = NaiveTier(flash, lru)
        self.keep = keep
        self.promote_after = promote_after
        self.flash_hits: dict[str, int] = {}

    def request(self, items: dict[str, int]) -> list[str | None]:
        keys = list(items)
        before = [self.where(key) for key in keys]
        asked = set(keys)
        self._touch(keys)
        for key, where in zip(keys, before, strict=True):
            if where == "flash":
                self.flash_hits[key] += 1
                if self.flash_hits[key] >= self.promote_after:
                    self._promote(key, asked)
        full: set[str] = set()
        for key, where in zip(keys, before, strict=True):
            if where is None:
                self._insert(key, items[key], asked, full)
        self._order_request(keys, before)
        return before

    def where(self, key: str) -> str | None:
        return "dram" if key in self.dram.order else "flash" if key in self.flash.order else None

    def _touch(self, keys: list[str]) -> None:
        for tier in (self.dram, self.flash):
            if tier.moves_on_use:
                present = [key for key in reversed(keys) if key in tier.order]
                tier.order = [key for key in tier.order if key not in present] + present

    def _promote(self, key: str, asked: set[str]) -> None:
        size = self.flash.sizes[key]
        if size > self.dram.capacity or not self.dram.can_make_room(size, asked):
            return
        if not self.keep:
            self.flash.drop(key)
        self._make_room_in_dram(size, asked)
        self.dram.order.append(key)
        self.dram.sizes[key] = size

    def _insert(self, key: str, size: int, asked: set[str], full: set[str]) -> None:
        for name, tier in (("dram", self.dram), ("flash", self.flash)):
            if size > tier.capacity:
                continue
            if name in full or not tier.can_make_room(size, asked):
                full.add(name)
                return
            if tier is self.dram:
                self._make_room_in_dram(size, asked)
            else:
                self._make_room_in_flash(size, asked)
                self.flash_hits[key] = 0
            tier.order.append(key)
            tier.sizes[key] = size
            return

    def _make_room_in_dram(self, size: int, asked: set[str]) -> None:
        for victim in self.dram.victims_for(size, asked):
            victim_size = self.dram.sizes[victim]
            self.dram.drop(victim)
            if victim in self.flash.order or victim_size > self.flash.capacity:
                continue
            if self.flash.can_make_room(victim_size, asked):
                self._make_room_in_flash(victim_size, asked)
                self.flash.order.append(victim)
                self.flash.sizes[victim] = victim_size
                self.flash_hits[victim] = 0

    def _make_room_in_flash(self, size: int, asked: set[str]) -> None:
        for victim in self.flash.victims_for(size, asked):
            self.flash.drop(victim)

    def _order_request(self, keys: list[str], before: list[str | None]) -> None:
        """Bring this request's keys in the top tier into tail-first order: all under LRU, only new ones under FIFO."""
        top = self.dram if self.dram.capacity else self.flash
        moved = [
            key
            for key, where in reversed(list(zip(keys, before, strict=True)))
            if key in top.order and (top.moves_on_use or where is None or (top is self.dram and where == "flash"))
        ]
        top.order = [key for key in top.order if key not in moved] + moved
