"""CRC-32C (Castagnoli, RFC 3720 appendix B.4) over a value that lies in several pieces of memory."""

from collections.abc import Iterable

from crc32c import crc32c

Piece = bytes | bytearray | memoryview


def checksum(pieces: Iterable[Piece], initial: int = 0) -> int:
    """Return the CRC-32C of `pieces` as if they were one; `initial` is the sum of what came before."""
    for piece in pieces:
        initial = crc32c(piece, initial)
    return initial
