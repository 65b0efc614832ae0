"""Bytes of the store: what goes in comes out, and what does not fit is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.series.codec import CodecError, Stat, decode_rollup, decode_tick, encode_rollup, encode_tick

finite = st.floats(allow_nan=False)


@given(st.lists(finite, max_size=50))
def test_tick_round_trip(values: list[float]) -> None:
    assert list(decode_tick(encode_tick(values), len(values))) == values


def test_tick_keeps_absence() -> None:
    assert math.isnan(decode_tick(encode_tick([1.0, math.nan]), 2)[1])


@given(st.lists(st.builds(Stat, finite, st.integers(0, 2**32 - 1), finite, finite), max_size=50))
def test_rollup_round_trip(stats: list[Stat]) -> None:
    assert decode_rollup(encode_rollup(stats), len(stats)) == stats


@pytest.mark.parametrize("blob", [b"", b"\x01", b"\x02" + b"0" * 16, b"\x01" + b"0" * 15, b"\x01" + b"0" * 24])
def test_tick_of_another_shape_is_refused(blob: bytes) -> None:
    with pytest.raises(CodecError):
        decode_tick(blob, 2)


def test_rollup_of_another_shape_is_refused() -> None:
    good = encode_rollup([Stat()] * 3)
    for blob, size in ((good, 2), (good, 4), (good[:-4], 3), (b"\x01garbage", 3), (b"", 0), (b"\x09" + good[1:], 3)):
        with pytest.raises(CodecError):
            decode_rollup(blob, size)


@given(st.lists(st.lists(st.integers(-50, 50), min_size=1), min_size=1))
def test_stat_of_parts_is_stat_of_the_whole(parts: list[list[int]]) -> None:
    whole, merged = Stat(), Stat()
    for part in parts:
        one = Stat()
        for value in part:
            one.observe(value, value)
            whole.observe(value, value)
        merged.add(one)
    assert merged == whole
