"""Lookups and inserts: what is kept, where, in which order, by which moves."""

import pytest

from kvcache.policy import ResolvedTier
from kvcache.tiering import Move, Reason, Tier, TieredCache, Usage
from kvcache.tiering.requests import MAX_REMEMBERED_KEYS
from tests.kvcache.tiering.mirror import Mirror, policy

DRAM, FLASH = Tier.DRAM, Tier.FLASH


def _items(keys: str, size: int = 1) -> list[tuple[bytes, int]]:
    return [(key.encode(), size) for key in keys]


def _keys(keys: str) -> list[bytes]:
    return [key.encode() for key in keys]


def _where(mirror: Mirror, keys: str) -> str:
    return "".join({DRAM: "d", FLASH: "f", None: "-"}[mirror.cache.locate(key, 0.0)] for key in _keys(keys))


def test_lookup_counts_the_leading_run_and_every_hit() -> None:
    mirror = Mirror(policy(9))
    mirror.insert(_items("abd"))
    answer = mirror.lookup(_keys("abcd"))
    assert answer.tiers == [DRAM, DRAM, None, DRAM]
    assert answer.prefix_blocks == 2
    assert answer.moves == []


def test_lookup_of_nothing_and_of_a_key_twice() -> None:
    mirror = Mirror(policy(9))
    mirror.insert(_items("a"))
    assert mirror.lookup([]) == ([], 0, [])
    assert mirror.lookup(_keys("aab")).tiers == [DRAM, DRAM, None]


def test_insert_tail_of_a_request_is_evicted_first() -> None:
    mirror = Mirror(policy(4))
    mirror.request(_items("abcd"))
    mirror.request(_items("xy"))
    assert _where(mirror, "abcdxy") == "dd--dd"


def test_insert_request_longer_than_the_cache_keeps_its_head() -> None:
    mirror = Mirror(policy(3))
    answer = mirror.insert(_items("abcde"))
    assert answer.admitted == [True, True, True, False, False]
    assert _where(mirror, "abcde") == "ddd--"


def test_insert_of_missing_keys_does_not_evict_the_others_of_their_request() -> None:
    """The write command names only the missing keys; the read before it says to which request they belong."""
    mirror = Mirror(policy(4))
    mirror.request(_items("ab"))
    mirror.request(_items("xy"))
    mirror.lookup(_keys("abcdef"))
    assert mirror.insert(_items("cdef")).admitted == [True, True, False, False]
    assert _where(mirror, "abcdefxy") == "dddd----"


def test_insert_after_another_request_came_between_still_protects_its_own() -> None:
    mirror = Mirror(policy(4))
    mirror.request(_items("ab"))
    mirror.request(_items("xy"))
    mirror.lookup(_keys("abcd"))
    mirror.lookup(_keys("xy"))
    mirror.insert(_items("cd"))
    assert _where(mirror, "abcdxy") == "dddd--"


def test_insert_without_a_lookup_protects_what_it_is_told_to() -> None:
    mirror = Mirror(policy(2))
    mirror.insert(_items("a"))
    mirror.insert(_items("b"))
    assert mirror.insert(_items("c"), protect=(b"a",)).admitted == [True]
    assert _where(mirror, "abc") == "d-d"


def test_insert_moves_are_in_order_to_carry_out() -> None:
    cache = TieredCache(policy(1, 1))
    cache.insert(_items("a"), 0.0)
    cache.insert(_items("b"), 0.0)
    assert cache.insert(_items("c"), 0.0).moves == [
        Move(b"a", FLASH, None, 1, Reason.EVICT),
        Move(b"b", DRAM, FLASH, 1, Reason.DEMOTE),
        Move(b"c", None, DRAM, 1, Reason.ADMIT),
    ]


def test_victim_that_flash_has_already_is_only_dropped() -> None:
    mirror = Mirror(policy(1, 3))
    mirror.request(_items("a"))
    mirror.request(_items("b"))
    assert [move.reason for move in mirror.lookup(_keys("a")).moves] == [Reason.DEMOTE, Reason.PROMOTE]
    assert mirror.lookup(_keys("b")).moves[0] == Move(b"a", DRAM, None, 1, Reason.EVICT)
    assert mirror.cache.copies_of(b"a") == (FLASH,)
    assert mirror.cache.copies_of(b"b") == (DRAM, FLASH)


def test_promotion_without_keeping_swaps_the_two_places() -> None:
    cache = TieredCache(policy(1, 1, keep=False))
    cache.insert(_items("a"), 0.0)
    cache.insert(_items("b"), 0.0)
    assert cache.lookup([b"a"], 0.0) == (
        [FLASH],
        1,
        [
            Move(b"a", FLASH, DRAM, 1, Reason.PROMOTE),
            Move(b"a", FLASH, None, 1, Reason.PROMOTE),
            Move(b"b", DRAM, FLASH, 1, Reason.DEMOTE),
        ],
    )


def test_promotion_waits_for_the_hits_that_the_policy_asks_for() -> None:
    mirror = Mirror(policy(1, 2, hits=3))
    mirror.request(_items("a"))
    mirror.request(_items("b"))
    assert [mirror.lookup(_keys("a")).tiers[0] for _ in range(4)] == [FLASH, FLASH, FLASH, DRAM]


def test_promotion_is_left_out_where_only_the_request_itself_would_make_room() -> None:
    mirror = Mirror(policy(1, 2))
    mirror.request(_items("a"))
    mirror.request(_items("b"))
    answer = mirror.lookup(_keys("ba"))
    assert answer == ([DRAM, FLASH], 2, [])


def test_dram_of_zero_bytes_sends_new_blocks_to_flash() -> None:
    mirror = Mirror(policy(0, 2))
    mirror.request(_items("abc"))
    assert mirror.cache.usage(FLASH) == Usage(2, 2)
    assert mirror.lookup(_keys("ab")) == ([FLASH, FLASH], 2, [])


def test_no_tier_at_all_refuses_everything() -> None:
    mirror = Mirror(policy(0, 0))
    assert mirror.insert(_items("ab")) == ([False, False], [])
    assert mirror.lookup(_keys("ab")).tiers == [None, None]


def test_block_larger_than_dram_goes_straight_to_flash() -> None:
    mirror = Mirror(policy(2, 9))
    mirror.insert([(b"big", 5), (b"s", 1)])
    assert mirror.cache.locate(b"big", 0.0) is FLASH
    assert mirror.lookup([b"big"]) == ([FLASH], 1, [])
    assert mirror.cache.locate(b"s", 0.0) is DRAM


def test_block_larger_than_every_tier_is_refused_alone_and_evicts_nothing() -> None:
    mirror = Mirror(policy(3, 4))
    mirror.insert(_items("abc"))
    assert mirror.insert([(b"huge", 5), (b"x", 1)]).admitted == [False, True]
    assert _where(mirror, "abc") == "ddf"


def test_block_that_would_not_fit_beside_its_own_request_evicts_nothing() -> None:
    mirror = Mirror(policy(10))
    mirror.insert([(b"old", 3)])
    assert mirror.insert([(b"a", 5), (b"b", 6)]).admitted == [True, False]
    assert _where(mirror, "ab") == "d-"
    assert mirror.cache.size_of(b"old") == 3


def test_demoted_block_larger_than_flash_is_dropped() -> None:
    mirror = Mirror(policy(4, 2))
    mirror.insert([(b"a", 4)])
    assert mirror.insert([(b"b", 4)]).moves[0] == Move(b"a", DRAM, None, 4, Reason.EVICT)


def test_overwrite_replaces_every_copy_and_charges_the_new_size() -> None:
    mirror = Mirror(policy(4, 9))
    mirror.insert([(b"a", 4)])
    mirror.insert([(b"b", 4)])
    mirror.lookup([b"a"])
    assert mirror.cache.copies_of(b"a") == (DRAM, FLASH)
    assert mirror.insert([(b"a", 2)]).moves == [
        Move(b"a", DRAM, None, 4, Reason.REPLACE),
        Move(b"a", FLASH, None, 4, Reason.REPLACE),
        Move(b"a", None, DRAM, 2, Reason.ADMIT),
    ]
    assert mirror.cache.size_of(b"a") == 2


def test_overwrite_that_is_refused_leaves_no_old_value_behind() -> None:
    mirror = Mirror(policy(4))
    mirror.insert([(b"a", 1)])
    answer = mirror.insert([(b"a", 99)])
    assert answer == ([False], [Move(b"a", DRAM, None, 1, Reason.REPLACE)])


def test_key_given_twice_takes_the_last_size() -> None:
    mirror = Mirror(policy(9))
    assert mirror.insert([(b"a", 7), (b"b", 1), (b"a", 2)]).admitted == [True, True, True]
    assert mirror.cache.usage(DRAM) == Usage(3, 2)


@pytest.mark.parametrize(("size", "ttl_s"), [(-1, None), (1, 0.0), (1, -5.0), (1, float("nan"))])
def test_insert_bad_argument_changes_nothing(size: int, ttl_s: float | None) -> None:
    mirror = Mirror(policy(1))
    mirror.insert(_items("a"))
    with pytest.raises(ValueError, match="give"):
        mirror.cache.insert([(b"b", 1), (b"c", size)], 0.0, ttl_s)
    mirror.check()
    assert _where(mirror, "abc") == "d--"


def test_empty_value_is_charged_as_one_byte() -> None:
    mirror = Mirror(policy(2))
    mirror.insert(_items("abc", 0))
    assert mirror.cache.usage(DRAM) == Usage(2, 2)


def test_touch_saves_from_eviction_and_promotes_nothing() -> None:
    mirror = Mirror(policy(2, 2))
    mirror.insert(_items("a"))
    mirror.insert(_items("b"))
    assert mirror.cache.touch(_keys("az"), 0.0) == 1
    mirror.insert(_items("c"))
    assert _where(mirror, "abc") == "dfd"
    mirror.cache.touch(_keys("b"), 0.0)
    assert _where(mirror, "b") == "f"


def test_remove_drops_every_copy_once() -> None:
    mirror = Mirror(policy(1, 2))
    mirror.request(_items("a"))
    mirror.request(_items("b"))
    mirror.lookup([b"a"])
    assert mirror.remove([b"a", b"a", b"never"]) == [
        Move(b"a", DRAM, None, 1, Reason.DELETE),
        Move(b"a", FLASH, None, 1, Reason.DELETE),
    ]


def test_questions_about_unknown_keys() -> None:
    cache = TieredCache(policy(1))
    assert cache.locate(b"x", 0.0) is cache.size_of(b"x") is cache.expires_at(b"x") is None
    assert cache.copies_of(b"x") == ()
    assert cache.set_expiry(b"x", 5.0) is False
    assert len(cache) == 0


def test_keys_iterator_survives_changes() -> None:
    cache = TieredCache(policy(9))
    cache.insert(_items("abc"), 0.0)
    seen = []
    for key in cache.keys():  # noqa: SIM118
        seen.append(key)
        cache.remove([key])
    assert sorted(seen) == [b"a", b"b", b"c"]


def test_watermarks_evict_down_to_the_low_one() -> None:
    mirror = Mirror(policy(ResolvedTier(10, 8, 4)))
    for key in "abcdefgh":
        mirror.insert(_items(key))
    assert mirror.cache.usage(DRAM).blocks == 8
    mirror.insert(_items("i"))
    assert _where(mirror, "abcdefghi") == "-----dddd"
    for key in "jklm":
        mirror.insert(_items(key))
    assert mirror.cache.usage(DRAM).blocks == 8


def test_watermarks_far_apart_drain_in_bounded_steps() -> None:
    mirror = Mirror(policy(ResolvedTier(1000, 1000, 100)))
    for number in range(1000):
        mirror.insert([(b"%d" % number, 1)])
    victims = []
    while True:
        moves = mirror.insert([(b"new%d" % len(victims), 1)]).moves
        victims.append(len(moves) - 1)
        if not victims[-1]:
            break
    assert max(victims) <= 65
    assert mirror.cache.usage(DRAM).blocks - 1 == 100


def test_lookups_that_never_store_are_remembered_within_a_bound() -> None:
    cache = TieredCache(policy(4))
    for number in range(3 * MAX_REMEMBERED_KEYS // 8):
        cache.lookup([b"%d-%d" % (number, part) for part in range(8)], 0.0)
    assert len(cache._requests._serial_of) <= MAX_REMEMBERED_KEYS
    assert len(cache._shelves.dram.order._nodes) <= MAX_REMEMBERED_KEYS  # type: ignore[attr-defined]


def test_request_larger_than_the_memory_is_served_all_the_same() -> None:
    cache = TieredCache(policy(8))
    keys = [b"%d" % number for number in range(MAX_REMEMBERED_KEYS + 10)]
    assert cache.lookup(keys, 0.0).prefix_blocks == 0
    assert cache.insert([(key, 1) for key in keys], 0.0).admitted.count(True) == 8
    assert cache.lookup(keys[:8], 0.0).prefix_blocks == 8


def test_many_victims_per_block_are_bounded() -> None:
    mirror = Mirror(policy(10_000))
    for start in range(0, 10_000, 1000):
        mirror.insert([(b"%d" % number, 1) for number in range(start, start + 1000)])
    answer = mirror.insert([(b"big", 9_000)])
    assert answer.admitted == [False]
    assert len(answer.moves) == 4096
    mirror.insert([(b"big", 9_000)])
    assert mirror.insert([(b"big", 9_000)]).admitted == [True]


def test_room_in_flash_is_found_again_after_a_pass_over_it_came_to_its_end() -> None:
    mirror = Mirror(policy(5, ResolvedTier(3, 3, 1)))
    for key in "p12345":
        mirror.insert(_items(key))
    assert _where(mirror, "p12345") == "fddddd"
    mirror.insert(_items("abcde"), protect=(b"p",))
    assert _where(mirror, "p12345") == "f----f"


def test_promotion_left_out_holds_no_place_in_dram() -> None:
    mirror = Mirror(policy(2, 3))
    for key in "acb":
        mirror.insert(_items(key))
    assert mirror.lookup(_keys("bca")).moves == []
    mirror.remove(_keys("ab"))
    for key in "xay":
        mirror.insert(_items(key))
    assert mirror.cache.copies_of(b"a") == (DRAM,)
    assert mirror.cache.copies_of(b"x") == (FLASH,)


def test_request_once_stored_protects_no_more() -> None:
    mirror = Mirror(policy(2))
    mirror.request(_items("ab"))
    mirror.remove([b"a"])
    mirror.insert(_items("x"))
    mirror.insert(_items("a"))
    assert _where(mirror, "abx") == "d-d"
