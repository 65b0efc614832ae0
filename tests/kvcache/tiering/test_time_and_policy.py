"""Expiry, changes of policy, restarts."""

from dataclasses import replace

import pytest

from kvcache.policy import ResolvedTier
from kvcache.tiering import Move, Reason, Tier, TieredCache, Usage
from tests.kvcache.tiering.mirror import Mirror, policy

DRAM, FLASH = Tier.DRAM, Tier.FLASH


def _fill(mirror: Mirror, count: int, now_s: float = 0.0) -> list[bytes]:
    keys = [b"%d" % number for number in range(count)]
    for key in keys:
        mirror.insert([(key, 1)], now_s)
    return keys


def test_ttl_of_the_writer_expires_lazily_at_its_moment() -> None:
    mirror = Mirror(policy(4))
    mirror.insert([(b"a", 1)], now_s=10.0, ttl_s=5.0)
    assert mirror.cache.expires_at(b"a") == 15.0
    assert mirror.cache.locate(b"a", 14.999) is DRAM
    assert mirror.cache.locate(b"a", 15.0) is None
    assert mirror.cache.usage(DRAM).blocks == 1
    assert mirror.lookup([b"a"], 15.0) == ([None], 0, [Move(b"a", DRAM, None, 1, Reason.EXPIRE)])


def test_use_does_not_prolong_the_writers_ttl_but_does_the_tiers() -> None:
    mirror = Mirror(policy(ResolvedTier.of_bytes(4, ttl_s=10.0)))
    mirror.insert([(b"own", 1)], 0.0, ttl_s=15.0)
    mirror.insert([(b"tier", 1)], 0.0)
    for now_s in (9.0, 14.0):
        assert mirror.lookup([b"own", b"tier"], now_s).prefix_blocks == 2
    assert mirror.lookup([b"own", b"tier"], 20.0).tiers == [None, DRAM]
    assert mirror.cache.locate(b"tier", 30.0) is None
    assert mirror.cache.expires_at(b"tier") is None


def test_expiry_is_set_moved_and_taken_away() -> None:
    mirror = Mirror(policy(4))
    _fill(mirror, 1)
    assert mirror.cache.set_expiry(b"0", 50.0)
    assert mirror.cache.set_expiry(b"0", 20.0)
    assert mirror.cache.expires_at(b"0") == 20.0
    assert mirror.cache.set_expiry(b"0", None)
    assert mirror.expire(1e9) == []
    assert mirror.cache.set_expiry(b"0", 30.0)
    assert mirror.expire(29.9) == []
    assert mirror.expire(30.0) == [Move(b"0", DRAM, None, 1, Reason.EXPIRE)]


def test_overwrite_forgets_the_old_expiry() -> None:
    mirror = Mirror(policy(4))
    mirror.insert([(b"a", 1)], 0.0, ttl_s=5.0)
    mirror.insert([(b"a", 1)], 1.0)
    assert mirror.expire(100.0) == []
    assert mirror.cache.locate(b"a", 100.0) is DRAM


def test_overwrite_of_an_expired_key_says_expired() -> None:
    mirror = Mirror(policy(4))
    mirror.insert([(b"a", 1)], 0.0, ttl_s=5.0)
    assert mirror.insert([(b"a", 2)], 9.0).moves[0].reason is Reason.EXPIRE


def test_expire_drops_at_most_as_many_keys_as_asked() -> None:
    mirror = Mirror(policy(ResolvedTier.of_bytes(50, ttl_s=1.0)))
    _fill(mirror, 50)
    counts = []
    while moves := mirror.expire(5.0, 20):
        counts.append(len(moves))
    assert counts == [20, 20, 10]


def test_expire_of_keys_in_use_does_bounded_work_and_loses_none() -> None:
    mirror = Mirror(policy(ResolvedTier.of_bytes(5000, ttl_s=10.0)))
    keys = [b"%d" % number for number in range(5000)]
    mirror.insert([(key, 1) for key in keys], 0.0)
    mirror.cache.touch(keys[:-1], 9.0)
    while not (moves := mirror.expire(11.0, 10)):
        pass
    assert [move.key for move in moves] == [keys[-1]]
    assert mirror.cache.usage(DRAM).blocks == 4999


def test_ttl_of_one_tier_leaves_the_copy_in_the_other() -> None:
    mirror = Mirror(policy(ResolvedTier.of_bytes(1, ttl_s=10.0), 4))
    _fill(mirror, 2)
    mirror.lookup([b"0"], 1.0)
    assert mirror.cache.copies_of(b"0") == (DRAM, FLASH)
    assert mirror.cache.locate(b"0", 11.0) is FLASH
    assert mirror.expire(11.0) == [Move(b"0", DRAM, None, 1, Reason.EXPIRE)]
    assert mirror.lookup([b"0"], 11.0).tiers == [FLASH]


def test_victim_past_its_time_is_dropped_and_not_demoted() -> None:
    mirror = Mirror(policy(1, 4))
    mirror.insert([(b"a", 1)], 0.0, ttl_s=5.0)
    assert mirror.insert([(b"b", 1)], 9.0).moves[0] == Move(b"a", DRAM, None, 1, Reason.EXPIRE)


def test_demotion_keeps_the_writers_expiry_and_restarts_the_tiers() -> None:
    mirror = Mirror(policy(1, ResolvedTier.of_bytes(4, ttl_s=10.0)))
    mirror.insert([(b"a", 1)], 0.0, ttl_s=100.0)
    mirror.insert([(b"b", 1)], 50.0)
    assert mirror.cache.locate(b"a", 59.0) is FLASH
    assert mirror.cache.expires_at(b"a") == 100.0
    assert mirror.cache.locate(b"a", 60.0) is None


def test_apply_smaller_policy_moves_nothing_until_shrink_takes_bounded_steps() -> None:
    mirror = Mirror(policy(10, 10))
    _fill(mirror, 15)
    mirror.cache.apply(policy(2, 4))
    mirror.check()
    assert mirror.cache.usage(DRAM).blocks == 10
    assert mirror.cache.is_over()
    steps = []
    while moves := mirror.shrink(3):
        steps.append(len(moves))
        assert len(moves) <= 6
    assert len(steps) == 3
    assert (mirror.cache.usage(DRAM), mirror.cache.usage(FLASH)) == (Usage(2, 2), Usage(4, 4))
    assert [mirror.cache.locate(b"%d" % number, 0.0) for number in range(9, 15)] == [FLASH] * 4 + [DRAM] * 2


def test_shrink_names_its_reason_for_what_it_drops() -> None:
    mirror = Mirror(policy(3))
    _fill(mirror, 3)
    mirror.cache.apply(policy(1))
    assert [(move.key, move.reason) for move in mirror.shrink(9)] == [(b"0", Reason.SHRINK), (b"1", Reason.SHRINK)]


def test_apply_zero_dram_sends_its_blocks_down() -> None:
    mirror = Mirror(policy(3, 3))
    _fill(mirror, 3)
    mirror.cache.apply(policy(0, 3))
    mirror.shrink(9)
    assert (mirror.cache.usage(DRAM).blocks, mirror.cache.usage(FLASH).blocks) == (0, 3)
    mirror.request([(b"new", 1)])
    assert mirror.cache.locate(b"new", 0.0) is FLASH


def test_hits_go_on_while_a_tier_is_over_and_inserts_give_up_little() -> None:
    mirror = Mirror(policy(1000))
    keys = [b"%d" % number for number in range(1000)]
    mirror.insert([(key, 1) for key in keys])
    mirror.cache.apply(policy(10))
    assert mirror.lookup(keys[-5:]).prefix_blocks == 5
    answer = mirror.insert([(b"new", 1)])
    assert answer.admitted == [False]
    assert len(answer.moves) == 64


def test_apply_larger_policy_is_used_at_once() -> None:
    mirror = Mirror(policy(1))
    _fill(mirror, 1)
    mirror.cache.apply(policy(2))
    assert mirror.insert([(b"x", 1)]).moves == [Move(b"x", None, DRAM, 1, Reason.ADMIT)]
    assert mirror.shrink(5) == []


def test_apply_another_algorithm_starts_from_the_old_order() -> None:
    mirror = Mirror(policy(3, order="lru"))
    _fill(mirror, 3)
    mirror.lookup([b"0"])
    mirror.cache.apply(policy(3, order="fifo"))
    mirror.lookup([b"1"])
    mirror.insert([(b"x", 1)])
    assert mirror.cache.locate(b"1", 0.0) is None
    assert mirror.cache.locate(b"0", 0.0) is DRAM


def test_apply_a_ttl_reaches_blocks_that_are_there() -> None:
    mirror = Mirror(policy(3))
    _fill(mirror, 2, now_s=100.0)
    limited = policy(ResolvedTier.of_bytes(3, ttl_s=10.0))
    mirror.cache.apply(limited)
    assert mirror.expire(109.0) == []
    assert len(mirror.expire(110.0)) == 2
    _fill(mirror, 2, now_s=200.0)
    mirror.cache.apply(replace(limited, dram=ResolvedTier.of_bytes(3)))
    assert mirror.expire(1e9) == []
    assert mirror.cache.locate(b"0", 1e9) is DRAM


def test_restore_brings_back_order_expiry_and_books() -> None:
    mirror = Mirror(policy(2, 3))
    for number in range(3):
        mirror.restore(b"%d" % number, 1, FLASH, expires_at=50.0 if number == 2 else None)
    assert mirror.cache.expires_at(b"2") == 50.0
    mirror.insert([(b"x", 1), (b"y", 1)], 0.0)
    assert mirror.insert([(b"z", 1)], 0.0).moves[0] == Move(b"0", FLASH, None, 1, Reason.EVICT)
    assert mirror.lookup([b"2"], 60.0).tiers == [None]


def test_restore_more_than_the_policy_allows_is_shrunk_afterwards() -> None:
    mirror = Mirror(policy(0, 2))
    for number in range(5):
        mirror.restore(b"%d" % number, 1, FLASH)
    assert mirror.cache.is_over()
    mirror.shrink(10)
    assert sorted(mirror.cache.keys()) == [b"3", b"4"]


def test_restore_under_a_ttl_counts_from_the_first_expire() -> None:
    mirror = Mirror(policy(0, ResolvedTier.of_bytes(4, ttl_s=10.0)))
    mirror.restore(b"a", 1, FLASH)
    assert mirror.cache.locate(b"a", 1e9) is FLASH
    assert mirror.expire(1000.0) == []
    assert mirror.cache.locate(b"a", 1009.0) is FLASH
    assert mirror.expire(1010.0) == [Move(b"a", FLASH, None, 1, Reason.EXPIRE)]


def test_restore_of_a_second_tier_needs_the_same_size_and_a_free_place() -> None:
    cache = TieredCache(policy(4, 4))
    cache.restore(b"a", 2, FLASH)
    cache.restore(b"a", 2, DRAM)
    assert cache.copies_of(b"a") == (DRAM, FLASH)
    for size, tier in ((2, FLASH), (3, DRAM)):
        with pytest.raises(ValueError, match="already"):
            cache.restore(b"a", size, tier)
    assert cache.usage(FLASH) == Usage(2, 1)


def test_expiry_moved_to_an_earlier_moment_is_kept() -> None:
    mirror = Mirror(policy(4))
    mirror.insert([(b"a", 1)], 0.0, ttl_s=50.0)
    mirror.cache.set_expiry(b"a", 20.0)
    assert len(mirror.expire(20.0)) == 1


def test_nothing_is_promoted_into_a_tier_that_must_shrink() -> None:
    mirror = Mirror(policy(3, 3))
    _fill(mirror, 4)
    mirror.cache.apply(policy(2, 3))
    assert mirror.lookup([b"0"]) == ([FLASH], 1, [])
    mirror.shrink(9)
    assert [move.reason for move in mirror.lookup([b"0"]).moves] == [Reason.DEMOTE, Reason.PROMOTE]
