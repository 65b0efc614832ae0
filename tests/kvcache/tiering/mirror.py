"""Carries the moves out on plain dictionaries, as an agent would on real memory, and refuses any that does not fit."""

from collections.abc import Iterable

from kvcache.policy import ResolvedPolicy, ResolvedTier
from kvcache.tiering import Insert, Lookup, Move, Reason, Tier, TieredCache, Usage


def policy(
    dram: int | ResolvedTier, flash: int | ResolvedTier = 0, *, hits: int = 1, keep: bool = True, order: str = "lru"
) -> ResolvedPolicy:
    """Return a resolved policy; a tier given as a number fills to the last byte."""

    def tier(given: int | ResolvedTier) -> ResolvedTier:
        return given if isinstance(given, ResolvedTier) else ResolvedTier.of_bytes(given, order)  # type: ignore[arg-type]

    return ResolvedPolicy(tier(dram), tier(flash), hits, keep)


class Mirror:
    """A cache and the copies that its moves have left; every call checks that the two agree."""

    def __init__(self, resolved: ResolvedPolicy) -> None:
        self.cache = TieredCache(resolved)
        self.copies: dict[Tier, dict[bytes, int]] = {Tier.DRAM: {}, Tier.FLASH: {}}

    def lookup(self, keys: Iterable[bytes], now_s: float = 0.0) -> Lookup:
        answer = self.cache.lookup(keys, now_s)
        self.carry_out(answer.moves, {})
        return answer

    def insert(
        self,
        items: Iterable[tuple[bytes, int]],
        now_s: float = 0.0,
        ttl_s: float | None = None,
        protect: tuple[bytes, ...] = (),
    ) -> Insert:
        items = list(items)
        answer = self.cache.insert(items, now_s, ttl_s, protect)
        self.carry_out(answer.moves, dict(items))
        return answer

    def request(self, items: Iterable[tuple[bytes, int]], now_s: float = 0.0) -> Lookup:
        """Look all up, then store what was missing: what a client does."""
        items = list(items)
        answer = self.lookup([key for key, _ in items], now_s)
        self.insert([item for item, tier in zip(items, answer.tiers, strict=True) if tier is None], now_s)
        return answer

    def remove(self, keys: Iterable[bytes]) -> list[Move]:
        return self.carry_out(self.cache.remove(keys), {})

    def expire(self, now_s: float, limit: int = 1000) -> list[Move]:
        return self.carry_out(self.cache.expire(now_s, limit), {})

    def shrink(self, limit: int) -> list[Move]:
        return self.carry_out(self.cache.shrink(limit), {})

    def restore(self, key: bytes, size: int, tier: Tier, expires_at: float | None = None) -> None:
        self.cache.restore(key, size, tier, expires_at)
        self.copies[tier][key] = size
        self.check()

    def carry_out(self, moves: list[Move], written: dict[bytes, int]) -> list[Move]:
        for move in moves:
            self._carry_out_one(move, written)
        self.check()
        return moves

    def _carry_out_one(self, move: Move, written: dict[bytes, int]) -> None:
        if move.source is None:
            assert move.reason is Reason.ADMIT
            assert move.size_bytes == max(written[move.key], 1)
        else:
            assert self.copies[move.source][move.key] == move.size_bytes
        if move.target is None:
            assert move.source is not None
            del self.copies[move.source][move.key]
            return
        assert move.key not in self.copies[move.target]
        self.copies[move.target][move.key] = move.size_bytes
        if move.reason is Reason.DEMOTE:
            assert (move.source, move.target) == (Tier.DRAM, Tier.FLASH)
            del self.copies[Tier.DRAM][move.key]
        elif move.source is not None:
            assert (move.source, move.target, move.reason) == (Tier.FLASH, Tier.DRAM, Reason.PROMOTE)

    def check(self) -> None:
        """The cache's books equal what is there."""
        for tier, copies in self.copies.items():
            assert self.cache.usage(tier) == Usage(sum(copies.values()), len(copies))
        known = self.copies[Tier.DRAM] | self.copies[Tier.FLASH]
        assert set(self.cache.keys()) == set(known)
        for key, size in known.items():
            assert self.cache.size_of(key) == size
            assert self.cache.copies_of(key) == tuple(tier for tier in Tier if key in self.copies[tier])
