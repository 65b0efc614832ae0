"""Whatever is called in whatever order: the books are right, moves chain, no tier is over after an insert."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvcache.policy import ResolvedPolicy, ResolvedTier
from kvcache.tiering import Reason, Tier
from tests.kvcache.tiering.mirror import Mirror

keys = st.integers(0, 20).map(lambda number: b"k%d" % number)
sizes = st.integers(0, 9)


@st.composite
def tiers(draw: st.DrawFn) -> ResolvedTier:
    capacity = draw(st.sampled_from([0, 5, 12, 40]))
    high = draw(st.integers(capacity // 2, capacity))
    return ResolvedTier(
        capacity,
        high,
        draw(st.integers(high // 2, high)),
        draw(st.sampled_from(["lru", "fifo"])),
        draw(st.none() | st.sampled_from([3.0, 30.0])),
    )


policies = st.builds(ResolvedPolicy, tiers(), tiers(), st.integers(1, 3), st.booleans())


class AnyCalls(RuleBasedStateMachine):
    @initialize(resolved=policies)
    def start(self, resolved: ResolvedPolicy) -> None:
        self.mirror = Mirror(resolved)
        self.now_s = 0.0

    @rule(step=st.sampled_from([0.0, 1.0, 5.0, 100.0]))
    def time_passes(self, step: float) -> None:
        self.now_s += step

    @rule(asked=st.lists(keys, max_size=8))
    def lookup(self, asked: list[bytes]) -> None:
        located = [self.mirror.cache.locate(key, self.now_s) for key in asked]
        answer = self.mirror.lookup(asked, self.now_s)
        assert answer.tiers == located
        for key, tier in zip(asked, located, strict=True):
            assert (self.mirror.cache.locate(key, self.now_s) is None) == (tier is None)

    @rule(
        items=st.lists(st.tuples(keys, sizes), max_size=8),
        ttl_s=st.none() | st.sampled_from([2.0, 50.0]),
        protect=st.lists(keys, max_size=3),
    )
    def insert(self, items: list[tuple[bytes, int]], ttl_s: float | None, protect: list[bytes]) -> None:
        kept = {key for key in protect if self.mirror.cache.locate(key, self.now_s)} - {key for key, _ in items}
        was_over = {tier: self._is_over(tier) for tier in Tier}
        answer = self.mirror.insert(items, self.now_s, ttl_s, tuple(protect))
        for (key, _), admitted in zip(items, answer.admitted, strict=True):
            assert (self.mirror.cache.locate(key, self.now_s) is not None) == admitted
            assert self.mirror.cache.expires_at(key) == (None if ttl_s is None or not admitted else self.now_s + ttl_s)
        assert all(self.mirror.cache.locate(key, self.now_s) for key in kept)
        for tier in Tier:
            assert was_over[tier] or not self._is_over(tier)

    @rule(gone=st.lists(keys, max_size=4))
    def remove(self, gone: list[bytes]) -> None:
        moves = self.mirror.remove(gone)
        assert all(move.reason is Reason.DELETE for move in moves)
        assert all(self.mirror.cache.size_of(key) is None for key in gone)

    @rule(asked=st.lists(keys, max_size=5))
    def touch(self, asked: list[bytes]) -> None:
        present = {key for key in asked if self.mirror.cache.locate(key, self.now_s)}
        assert self.mirror.cache.touch(asked, self.now_s) == len(present)

    @rule(key=keys, after_s=st.none() | st.sampled_from([-1.0, 4.0]))
    def set_expiry(self, key: bytes, after_s: float | None) -> None:
        at_s = None if after_s is None else self.now_s + after_s
        if self.mirror.cache.set_expiry(key, at_s):
            assert self.mirror.cache.expires_at(key) == at_s

    @rule(limit=st.integers(1, 5))
    def expire_some(self, limit: int) -> None:
        moves = self.mirror.expire(self.now_s, limit)
        assert len({move.key for move in moves}) <= limit
        assert all(move.reason is Reason.EXPIRE for move in moves)

    @rule()
    def expire_all(self) -> None:
        while self.mirror.expire(self.now_s):
            pass
        for key in list(self.mirror.cache.keys()):
            assert self.mirror.cache.locate(key, self.now_s) is not None

    @rule(resolved=policies)
    def apply(self, resolved: ResolvedPolicy) -> None:
        self.mirror.cache.apply(resolved)
        self.mirror.check()

    @rule(limit=st.integers(1, 4))
    def shrink_fully(self, limit: int) -> None:
        while self.mirror.cache.is_over():
            moves = self.mirror.shrink(limit)
            assert moves
            assert len([move for move in moves if move.source is Tier.DRAM]) <= limit
        assert self.mirror.shrink(limit) == []

    def _is_over(self, tier: Tier) -> bool:
        resolved = self.mirror.cache.policy
        limits = resolved.dram if tier is Tier.DRAM else resolved.flash
        return self.mirror.cache.usage(tier).bytes > limits.high_bytes

    @invariant()
    def books_are_right(self) -> None:
        if hasattr(self, "mirror"):
            self.mirror.check()


AnyCalls.TestCase.settings = settings(max_examples=250, stateful_step_count=30, deadline=None)
TestAnyCalls = AnyCalls.TestCase
