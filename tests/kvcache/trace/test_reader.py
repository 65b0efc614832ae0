"""Reading traces: what is accepted, and which line and field a bad one is blamed on."""

import gzip
import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kvcache.trace import Request, TraceError, read_trace, write_trace
from kvcache.trace.reader import MAX_LINE_BYTES

GOOD = {"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [0, 1], "block_size": 512}


def _lines(*changes: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({**GOOD, **change}).encode() + b"\n" for change in changes)


def _read(data: bytes, **options: Any) -> list[Request]:
    return list(read_trace(io.BytesIO(data), **options))


def _refused(data: bytes) -> TraceError:
    with pytest.raises(TraceError) as caught:
        _read(data)
    return caught.value


def test_read_plain_and_gzip_give_the_same_requests() -> None:
    data = _lines({}, {"timestamp": 12.5, "session": "s1", "type": "chat", "turn": 3})
    expected = [
        Request(0.0, 1000, 5, (0, 1), 512),
        Request(12.5, 1000, 5, (0, 1), 512, "s1"),
    ]
    assert _read(data) == _read(gzip.compress(data)) == expected


def test_read_path_and_several_gzip_members(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(_lines({})) + gzip.compress(_lines({"timestamp": 1})))
    assert len(list(read_trace(path))) == 2


def test_read_missing_path_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_trace(tmp_path / "none"))


def test_read_is_streaming_and_leaves_the_stream_open() -> None:
    stream = io.BytesIO(_lines({}) + b"not json\n")
    first = list(islice(read_trace(stream), 1))
    assert first[0].block_ids == (0, 1)
    assert not stream.closed


def test_read_empty_input_and_blank_lines() -> None:
    assert _read(b"") == _read(gzip.compress(b"")) == []
    assert len(_read(b"\n" + _lines({}) + b"  \r\n\n" + _lines({}))) == 2


def test_read_bom_and_windows_line_ends() -> None:
    assert len(_read(b"\xef\xbb\xbf" + _lines({}, {}).replace(b"\n", b"\r\n"))) == 2


def test_read_without_block_size_takes_the_default_it_is_given() -> None:
    line = json.dumps({name: value for name, value in GOOD.items() if name != "block_size"}).encode()
    assert _read(line, default_block_tokens=512)[0].block_tokens == 512
    assert _refused(line).field == "block_size"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timestamp", "0"),
        ("timestamp", -1),
        ("timestamp", True),
        ("timestamp", None),
        ("timestamp", 1e16),
        ("input_length", -1),
        ("input_length", 1000.0),
        ("input_length", True),
        ("input_length", 10**9),
        ("output_length", "5"),
        ("block_size", 0),
        ("block_size", 1 << 21),
        ("hash_ids", None),
        ("hash_ids", "01"),
        ("hash_ids", {"0": 1}),
        ("hash_ids", [0, 0]),
        ("hash_ids", [0, 1, 2]),
        ("session", 5),
        ("session", "s" * 513),
    ],
)
def test_read_bad_value_names_line_and_field(field: str, value: object) -> None:
    error = _refused(_lines({}, {field: value}))
    assert (error.line, error.field) == (2, field)
    assert str(error).startswith(f"line 2, field {field}: ")
    assert len(str(error)) < 250


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", None, 1 << 63, []])
def test_read_bad_block_id_names_its_position(value: object) -> None:
    assert _refused(_lines({"hash_ids": [7, value]})).field == "hash_ids[1]"


@pytest.mark.parametrize("field", sorted(GOOD))
def test_read_missing_field_is_named(field: str) -> None:
    line = json.dumps({name: value for name, value in GOOD.items() if name != field})
    error = _refused(line.encode())
    assert (error.line, error.field, error.problem) == (1, field, "the field is missing")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_read_time_that_is_not_finite_is_refused(text: str) -> None:
    assert _refused(_lines({}).replace(b'"timestamp": 0', f'"timestamp": {text}'.encode())).field == "timestamp"


def test_read_time_that_falls_is_refused_and_equal_times_are_not() -> None:
    assert len(_read(_lines({"timestamp": 5}, {"timestamp": 5}))) == 2
    error = _refused(_lines({"timestamp": 5}, {"timestamp": 4}))
    assert (error.line, error.field) == (2, "timestamp")
    assert "sort" in error.problem


def test_read_block_size_that_changes_is_refused() -> None:
    assert _refused(_lines({}, {"block_size": 256, "input_length": 512})).field == "block_size"


@pytest.mark.parametrize("line", [b"[]", b"5", b"null", b'"x"', b"{", b"x", b"\xff\xfe", b"[" * 10**5, b"9" * 5000])
def test_read_line_that_is_no_object_is_refused(line: bytes) -> None:
    error = _refused(_lines({}) + line)
    assert (error.line, error.field) == (2, "")


def test_read_line_too_long_is_refused_without_reading_it_all() -> None:
    assert "longer than" in _refused(b" " * (MAX_LINE_BYTES + 1)).problem


@pytest.mark.parametrize("cut", [3, 10, -9, -1])
def test_read_truncated_gzip_says_so(cut: int) -> None:
    packed = gzip.compress(
        b"".join(_lines({"timestamp": number, "output_length": number % 97}) for number in range(500))
    )
    error = _refused(packed[:cut])
    assert "gzip" in error.problem


def test_read_damaged_gzip_says_so() -> None:
    packed = bytearray(gzip.compress(b"".join(_lines({"timestamp": number}) for number in range(500))))
    packed[len(packed) // 2] ^= 0xFF
    error = _refused(bytes(packed))
    assert "gzip" in error.problem or "JSON" in error.problem
    assert "gzip" in _refused(gzip.compress(_lines({})) + b"\x1f\x8bgarbage").problem


def test_read_truncated_gzip_yields_the_whole_lines_before_the_end() -> None:
    packed = gzip.compress(_lines({}, {}), compresslevel=0)
    reader = read_trace(io.BytesIO(packed[:-20]))
    assert next(reader).block_ids == (0, 1)
    with pytest.raises(TraceError):
        list(reader)


@pytest.mark.parametrize("compress", [True, False])
def test_write_then_read_is_the_identity_and_bytes_are_reproducible(compress: bool) -> None:
    requests = [
        Request(0.0, 1000, 5, (0, 1), 512),
        Request(0.5, 0, 0, (), 512, "a"),
        Request(7.0, 1024, 1, (0, (1 << 63) - 1), 512),
    ]
    first, second = io.BytesIO(), io.BytesIO()
    assert (
        write_trace(requests, first, compress=compress) == write_trace(iter(requests), second, compress=compress) == 3
    )
    assert first.getvalue() == second.getvalue()
    assert _read(first.getvalue()) == requests


def test_tokens_in_prefix_of_a_partial_last_block() -> None:
    request = Request(0.0, 1000, 5, (0, 1), 512)
    assert [request.tokens_in_prefix(blocks) for blocks in range(3)] == [0, 512, 1000]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "requests", "accesses", "unique"),
    [
        ("mooncake_conversation", 12_031, 288_500, 182_790),
        ("mooncake_synthetic", 3_993, 121_877, 43_924),
        ("lmcache_agents_c64", 1_370, 61_278, 6_162),
    ],
)
def test_read_real_traces_have_their_published_sizes(
    shared_dir: Path, name: str, requests: int, accesses: int, unique: int
) -> None:
    trace = list(read_trace(shared_dir / "traces" / f"{name}.jsonl.gz"))
    ids = [block_id for request in trace for block_id in request.block_ids]
    assert (len(trace), len(ids), len(set(ids))) == (requests, accesses, unique)
