"""Bytes of the store. A tick is a version byte and float64 values in the layout's order, NaN where a series is absent.

A roll-up is a version byte and the zstd-compressed columns `sum`, `min`, `max` (float64) and `count` (uint32). All
little-endian.
"""

import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import zstandard

TICK_VERSION = 1
ROLLUP_VERSION = 1
MAX_SERIES = 200_000
_SWAP = sys.byteorder == "big"
_EMPTY = array("d")


class CodecError(ValueError):
    """A blob of another version, or one whose length does not fit its layout."""


@dataclass(slots=True)
class Stat:
    """Sum, count, min and max of one series over a span.

    Of a counter: sum of its increases, number of pairs of samples, least and greatest rate per second of a pair. Of a
    gauge: of its values.
    """

    total: float = 0.0
    count: int = 0
    least: float = math.inf
    greatest: float = -math.inf

    def observe(self, amount: float, extreme: float) -> None:
        """Count one pair or one value; `extreme` is what min and max are taken of."""
        self.total += amount
        self.count += 1
        self.least = min(self.least, extreme)
        self.greatest = max(self.greatest, extreme)

    def add(self, other: "Stat") -> None:
        """Add the statistics of another span: exact."""
        self.total += other.total
        self.count += other.count
        self.least = min(self.least, other.least)
        self.greatest = max(self.greatest, other.greatest)


def layout_digest(texts: Iterable[str]) -> str:
    """Return the identity (64 hex digits) of an ordered list of canonical series texts."""
    return sha256("\n".join(texts).encode()).hexdigest()


def encode_tick(values: Sequence[float]) -> bytes:
    """Return the blob of one tick."""
    return bytes([TICK_VERSION]) + _little(array("d", values))


def decode_tick(blob: bytes, size: int) -> "array[float]":
    """Return the values of a tick whose layout has `size` series. Raises `CodecError`."""
    if not blob or blob[0] != TICK_VERSION or len(blob) != 1 + 8 * size:
        raise CodecError(f"tick of {len(blob)} bytes does not fit a layout of {size} series")
    return _from_little("d", blob[1:])


def encode_rollup(stats: Sequence[Stat]) -> bytes:
    """Return the blob of one roll-up."""
    columns = (
        _little(array("d", [s.total for s in stats])),
        _little(array("d", [s.least for s in stats])),
        _little(array("d", [s.greatest for s in stats])),
        _little(array("I", [s.count for s in stats])),
    )
    return bytes([ROLLUP_VERSION]) + zstandard.compress(b"".join(columns), 3)


def decode_rollup(blob: bytes, size: int) -> list[Stat]:
    """Return the statistics of a roll-up whose layout has `size` series. Raises `CodecError`."""
    if not blob or blob[0] != ROLLUP_VERSION or size > MAX_SERIES:
        raise CodecError("roll-up of an unknown version")
    wanted = (3 * 8 + array("I").itemsize) * size
    try:
        raw = zstandard.ZstdDecompressor().decompress(blob[1:], max_output_size=max(wanted, 1))
    except zstandard.ZstdError as error:
        raise CodecError("roll-up cannot be decompressed") from error
    if len(raw) != wanted:
        raise CodecError(f"roll-up of {len(raw)} bytes does not fit a layout of {size} series")
    column = 8 * size
    totals, least, greatest = (_from_little("d", raw[i * column : (i + 1) * column]) for i in range(3))
    counts = array("I")
    counts.frombytes(raw[3 * column :])
    if _SWAP:
        counts.byteswap()
    return [Stat(*row) for row in zip(totals, counts, least, greatest, strict=True)]


def _little(values: "array[float] | array[int]") -> bytes:
    if _SWAP:
        values.byteswap()
    return values.tobytes()


def _from_little(code: str, raw: bytes) -> "array[float]":
    values = _EMPTY[:]
    values.frombytes(raw)
    if _SWAP:
        values.byteswap()
    return values
