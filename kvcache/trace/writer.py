"""Writes requests in the format that the reader reads."""

import gzip
import json
from collections.abc import Iterable
from typing import BinaryIO

from kvcache.trace.request import Request


def write_trace(requests: Iterable[Request], stream: BinaryIO, *, compress: bool = True) -> int:
    """Write one JSON line per request to an open binary stream, gzip by default; return how many were written.

    The same requests give the same bytes: no file name and no time is stored.
    """
    if not compress:
        return _write_lines(requests, stream)
    with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
        return _write_lines(requests, packed)


def _write_lines(requests: Iterable[Request], stream: BinaryIO | gzip.GzipFile) -> int:
    written = 0
    for request in requests:
        stream.write(_line(request))
        written += 1
    return written


def _line(request: Request) -> bytes:
    at_ms = float(request.timestamp_ms)
    fields: dict[str, object] = {
        "timestamp": int(at_ms) if at_ms.is_integer() else at_ms,
        "input_length": request.input_tokens,
        "output_length": request.output_tokens,
        "hash_ids": request.block_ids,
        "block_size": request.block_tokens,
    }
    if request.session is not None:
        fields["session"] = request.session
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"
