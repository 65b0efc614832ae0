"""Streaming reader of JSONL traces, plain or gzip, with errors that name line, field and what would be right."""

import gzip
import io
import json
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from kvcache.trace.request import Request

MAX_LINE_BYTES = 4 << 20
MAX_IDS_PER_REQUEST = 1 << 17
MAX_TOKENS = 100_000_000
MAX_BLOCK_TOKENS = 1 << 20
MAX_BLOCK_ID = (1 << 63) - 1
MAX_SESSION_CHARS = 512
MAX_TIMESTAMP_MS = 1e15
_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"


class TraceError(ValueError):
    """A line that is not a request: its number (from 1), the field at fault (empty: the line), what would be right."""

    def __init__(self, line: int, field: str, problem: str) -> None:
        super().__init__(f"line {line}{f', field {field}' if field else ''}: {problem}")
        self.line = line
        self.field = field
        self.problem = problem


def read_trace(source: BinaryIO | Path, *, default_block_tokens: int | None = None) -> Iterator[Request]:
    """Yield the requests of a trace one by one; memory stays that of one line.

    `source` is an open binary stream, which stays open, or a path that the caller was given. Each line is a JSON
    object with `timestamp` (ms, never falling), `input_length` and `output_length` (tokens), `hash_ids` (whole
    numbers, each at most once) and `block_size` (tokens, the same on every line; `default_block_tokens` where a trace
    leaves it out, as Mooncake's own files do: 512). `session` is optional, other fields are passed over.

    Raises:
        TraceError: at the first line that breaks one of these rules.
        OSError: the path cannot be read.
    """
    with _opened(source) as lines:
        check = _Checker(default_block_tokens)
        for number, line in _numbered(lines):
            if line.strip():
                yield check.request(number, line)


@contextmanager
def _opened(source: BinaryIO | Path) -> Iterator[BinaryIO]:
    """Look at the first bytes for gzip without losing them, and leave a stream that was handed in open."""
    stream = source.open("rb") if isinstance(source, Path) else source
    buffered = io.BufferedReader(cast(io.RawIOBase, stream), 1 << 16)
    try:
        if buffered.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=buffered, mode="rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield cast(BinaryIO, buffered)
    finally:
        buffered.detach()
        if isinstance(source, Path):
            stream.close()


def _numbered(lines: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while True:
        number += 1
        try:
            line = lines.readline(MAX_LINE_BYTES + 1)
        except EOFError:
            raise TraceError(number, "", "the gzip file ends in the middle; fetch it again") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise TraceError(number, "", f"the gzip file is damaged ({error}); fetch it again") from None
        if not line:
            return
        if len(line) > MAX_LINE_BYTES:
            raise TraceError(number, "", f"the line is longer than {MAX_LINE_BYTES} bytes; one request per line")
        yield number, line.removeprefix(_UTF8_BOM) if number == 1 else line


class _Checker:
    """Turns lines into requests and holds what one line must keep of the lines before it."""

    def __init__(self, default_block_tokens: int | None) -> None:
        self._block_tokens = default_block_tokens
        self._given = False
        self._last_ms = -math.inf
        self._line = 0

    def request(self, number: int, line: bytes) -> Request:
        self._line = number
        fields = self._fields(line)
        timestamp_ms = self._timestamp(fields)
        block_tokens = self._block_size(fields)
        input_tokens = self._whole(fields, "input_length", 0, MAX_TOKENS)
        output_tokens = self._whole(fields, "output_length", 0, MAX_TOKENS)
        block_ids = self._ids(fields, most=-(-input_tokens // block_tokens))
        return Request(timestamp_ms, input_tokens, output_tokens, block_ids, block_tokens, self._session(fields))

    def _fields(self, line: bytes) -> dict[str, Any]:
        try:
            fields = json.loads(line)
        except UnicodeDecodeError:
            self._fail("", "this is not UTF-8 text; is it a JSONL trace, plain or gzip?")
        except json.JSONDecodeError as error:
            self._fail("", f"this is not JSON (column {error.colno}: {error.msg}); one object per line")
        except (ValueError, RecursionError):
            self._fail("", "this is not a plain JSON object (a number with too many digits, or nested too deeply)")
        if not isinstance(fields, dict):
            self._fail("", "this is not a JSON object; one object per line")
        return fields

    def _timestamp(self, fields: dict[str, Any]) -> float:
        value = self._get(fields, "timestamp")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_TIMESTAMP_MS:
            self._fail("timestamp", f"{_shown(value)} is not a time; give milliseconds from 0 to {MAX_TIMESTAMP_MS:g}")
        if value < self._last_ms:
            self._fail("timestamp", f"{value} is before the line above ({self._last_ms}); sort the trace by time")
        self._last_ms = value
        return float(value)

    def _block_size(self, fields: dict[str, Any]) -> int:
        if "block_size" not in fields and self._block_tokens is not None and not self._given:
            return self._block_tokens
        size = self._whole(fields, "block_size", 1, MAX_BLOCK_TOKENS)
        if self._given and size != self._block_tokens:
            self._fail("block_size", f"{size} differs from {self._block_tokens} above; one block size per trace")
        self._block_tokens, self._given = size, True
        return size

    def _ids(self, fields: dict[str, Any], most: int) -> tuple[int, ...]:
        ids = self._get(fields, "hash_ids")
        if not isinstance(ids, list):
            self._fail("hash_ids", f"{_shown(ids)} is not a list; give a list of whole numbers")
        if len(ids) > min(most, MAX_IDS_PER_REQUEST):
            limit = f"the input fills {most}" if most < MAX_IDS_PER_REQUEST else f"the limit is {MAX_IDS_PER_REQUEST}"
            self._fail("hash_ids", f"{len(ids)} blocks are too many; {limit}")
        for position, block_id in enumerate(ids):
            if type(block_id) is not int or not 0 <= block_id <= MAX_BLOCK_ID:
                problem = f"{_shown(block_id)} is not a block id; give whole numbers from 0 to 2**63-1"
                self._fail(f"hash_ids[{position}]", problem)
        if len(set(ids)) < len(ids):
            self._fail("hash_ids", "an id is there twice; an id names a whole prefix, so it occurs once in a request")
        return tuple(ids)

    def _session(self, fields: dict[str, Any]) -> str | None:
        session = fields.get("session")
        if session is not None and (not isinstance(session, str) or len(session) > MAX_SESSION_CHARS):
            self._fail(
                "session", f"{_shown(session)} is not a name; give a text of {MAX_SESSION_CHARS} characters at most"
            )
        return session

    def _whole(self, fields: dict[str, Any], name: str, least: int, most: int) -> int:
        value = self._get(fields, name)
        if type(value) is not int or not least <= value <= most:
            self._fail(name, f"{_shown(value)} is not a number of tokens; give a whole number from {least} to {most}")
        return value

    def _get(self, fields: dict[str, Any], name: str) -> Any:
        if name not in fields:
            self._fail(name, "the field is missing")
        return fields[name]

    def _fail(self, field: str, problem: str) -> NoReturn:
        raise TraceError(self._line, field, problem)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:60] + "…"
