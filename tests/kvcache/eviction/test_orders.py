"""The eviction orders through their interface."""

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcache.eviction import ORDERS, EvictionOrder, make_order

NOBODY: frozenset[bytes] = frozenset()
names = pytest.mark.parametrize("name", sorted(ORDERS))


def _filled(name: str, keys: bytes) -> EvictionOrder:
    order = make_order(name)
    for key in keys:
        order.insert(bytes([key]))
    return order


def _evicted(order: EvictionOrder, count: int, protected: frozenset[bytes] = NOBODY) -> bytes:
    gone = b""
    for key in islice(order.candidates(protected), count):
        order.remove(key)
        gone += key
    return gone


def test_lru_touched_key_leaves_last() -> None:
    order = _filled("lru", b"abc")
    order.touch(b"a")
    assert _evicted(order, 3) == b"bca"


def test_fifo_touched_key_keeps_its_turn() -> None:
    order = _filled("fifo", b"abc")
    order.touch(b"a")
    assert _evicted(order, 3) == b"abc"


@names
def test_candidates_never_yield_protected_and_skip_them_once(name: str) -> None:
    order = _filled(name, b"abcde")
    assert _evicted(order, 9, frozenset([b"a", b"c"])) == b"bde"
    assert b"".join(order.oldest_first()) == b"ac"


@names
def test_candidates_see_keys_inserted_during_the_pass(name: str) -> None:
    order = _filled(name, b"a")
    turn = order.candidates(frozenset([b"a"]))
    order.insert(b"b")
    order.remove(next(turn))
    order.insert(b"c")
    assert next(turn) == b"c"


@names
def test_candidates_go_on_when_a_protected_key_is_removed_meanwhile(name: str) -> None:
    order = _filled(name, b"abc")
    turn = order.candidates(frozenset([b"a"]))
    order.remove(next(turn))
    order.remove(b"a")
    assert next(turn) == b"c"


@names
def test_candidates_of_empty_or_fully_protected_order_end(name: str) -> None:
    assert list(make_order(name).candidates(NOBODY)) == []
    assert list(_filled(name, b"ab").candidates(frozenset([b"a", b"b"]))) == []


@names
def test_reserved_place_is_taken_by_the_later_insert(name: str) -> None:
    order = _filled(name, b"a")
    order.reserve(b"x")
    order.insert(b"b")
    order.insert(b"x")
    assert b"".join(order.oldest_first()) == b"axb"


@names
def test_reserved_place_is_neither_there_nor_a_candidate(name: str) -> None:
    order = make_order(name)
    order.reserve(b"x")
    assert len(order) == 0
    assert b"x" not in order
    assert list(order.oldest_first()) == list(order.candidates(NOBODY)) == []
    with pytest.raises(KeyError):
        order.remove(b"x")
    with pytest.raises(KeyError):
        order.touch(b"x")


@names
def test_reserving_again_renews_the_place_unless_it_is_kept(name: str) -> None:
    order = make_order(name)
    for key in (b"x", b"y"):
        order.reserve(key)
    order.insert(b"a")
    order.reserve(b"x")
    order.reserve(b"y", keep_place=True)
    order.insert(b"x")
    order.insert(b"y")
    assert b"".join(order.oldest_first()) == b"yax"


@names
def test_reserved_place_older_than_every_candidate_is_given_up(name: str) -> None:
    order = make_order(name)
    order.reserve(b"x")
    order.insert(b"a")
    order.insert(b"b")
    assert _evicted(order, 1) == b"a"
    order.insert(b"x")
    assert b"".join(order.oldest_first()) == b"bx"


@names
def test_forget_gives_up_a_place_but_not_a_key(name: str) -> None:
    order = _filled(name, b"a")
    order.reserve(b"x")
    for key in (b"x", b"a", b"unknown"):
        order.forget(key)
    order.insert(b"b")
    order.insert(b"x")
    assert b"".join(order.oldest_first()) == b"abx"


@names
def test_insert_twice_and_unknown_keys_are_errors(name: str) -> None:
    order = _filled(name, b"a")
    with pytest.raises(ValueError, match="already"):
        order.insert(b"a")
    for call in (order.touch, order.remove):
        with pytest.raises(KeyError):
            call(b"z")


def test_unknown_algorithm_names_the_known() -> None:
    with pytest.raises(ValueError, match="fifo, lru"):
        make_order("arc")


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(sorted(ORDERS)),
    calls=st.lists(st.tuples(st.sampled_from(["insert", "touch", "remove", "evict"]), st.integers(0, 6)), max_size=60),
)
def test_orders_equal_a_list(name: str, calls: list[tuple[str, int]]) -> None:
    order, model = make_order(name), list[bytes]()
    for call, number in calls:
        key = bytes([number])
        if call == "insert" and key not in model:
            order.insert(key)
            model.append(key)
        elif call == "touch" and key in model:
            order.touch(key)
            if name == "lru":
                model.remove(key)
                model.append(key)
        elif call == "remove" and key in model:
            order.remove(key)
            model.remove(key)
        elif call == "evict" and model:
            assert _evicted(order, 1) == model.pop(0)
        assert list(order.oldest_first()) == model
        assert len(order) == len(model)
        assert (key in order) == (key in model)
