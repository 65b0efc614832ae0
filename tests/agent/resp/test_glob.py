"""Redis globs, compared with fnmatch where the two agree."""

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.resp.glob import MAX_PATTERN_BYTES, literal_prefix, matches


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (b"*", b"", True), (b"*", b"abc", True), (b"", b"", True), (b"", b"a", False), (b"a*", b"abc", True),
        (b"*c", b"abc", True), (b"a*c", b"abbbc", True), (b"a*c", b"abbb", False), (b"?", b"a", True),
        (b"?", b"", False), (b"h[ae]llo", b"hallo", True), (b"h[ae]llo", b"hillo", False),
        (b"h[^e]llo", b"hallo", True), (b"h[^e]llo", b"hello", False), (b"h[a-c]llo", b"hbllo", True),
        (b"h[c-a]llo", b"hbllo", True), (b"h\\*llo", b"h*llo", True), (b"h\\*llo", b"hallo", False),
        (b"[\\]]", b"]", True), (b"[", b"[", False), (b"[a", b"a", True), (b"\\", b"\\", True), (b"**", b"x", True),
        (b"a**b*", b"axxbyy", True), (b"[a-]", b"-", True),
    ],
)  # fmt: skip
def test_matches_redis_forms(pattern: bytes, text: bytes, expected: bool) -> None:
    assert matches(pattern, text) is expected


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_matches_agrees_with_fnmatch_on_stars_and_marks(pattern: str, text: str) -> None:
    assert matches(pattern.encode(), text.encode()) == fnmatch.fnmatchcase(text, pattern)


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_matches_any_bytes_gives_an_answer_and_its_prefix_holds(pattern: bytes, text: bytes) -> None:
    if matches(pattern, text):
        assert text.startswith(literal_prefix(pattern))


def test_matches_hostile_pattern_is_bounded() -> None:
    began = time.perf_counter()
    assert not matches(b"*a" * (MAX_PATTERN_BYTES // 2), b"a" * 200 + b"b" * 800)
    assert time.perf_counter() - began < 2
