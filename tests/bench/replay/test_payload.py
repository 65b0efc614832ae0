"""Payloads tell apart what a broken store could mix up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.replay.payload import MIN_PAYLOAD_BYTES, PayloadMaker

MAKER = PayloadMaker(16384)


def test_same_key_gives_same_bytes_in_every_maker() -> None:
    assert PayloadMaker(16384).make(b"key") == MAKER.make(b"key")
    assert len(MAKER.make(b"key")) == 16384
    assert MAKER.matches(b"key", MAKER.make(b"key"))


@given(st.integers(0, 16383), st.integers(1, 255))
def test_any_changed_byte_is_seen(place: int, change: int) -> None:
    payload = bytearray(MAKER.make(b"key"))
    payload[place] ^= change
    assert not MAKER.matches(b"key", bytes(payload))


def test_another_keys_bytes_a_shorter_one_and_swapped_pages_are_seen() -> None:
    mine, other = MAKER.make(b"mine"), MAKER.make(b"other")
    assert not MAKER.matches(b"mine", other)
    assert not MAKER.matches(b"mine", mine[:-1])
    assert not MAKER.matches(b"mine", mine + b"\0")
    assert not MAKER.matches(b"mine", mine[:4096] + other[4096:12288] + mine[12288:])
    assert not MAKER.matches(b"mine", mine[:4096] + mine[8192:12288] + mine[4096:8192] + mine[12288:])
    assert not MAKER.matches(b"mine", bytes(len(mine)))


def test_makers_of_two_sizes_differ() -> None:
    assert PayloadMaker(64).make(b"key") != MAKER.make(b"key")[:64]


def test_too_small_a_payload_is_refused() -> None:
    with pytest.raises(ValueError, match=f"at least {MIN_PAYLOAD_BYTES}"):
        PayloadMaker(MIN_PAYLOAD_BYTES - 1)
    assert len(PayloadMaker(MIN_PAYLOAD_BYTES).make(b"key")) == MIN_PAYLOAD_BYTES
