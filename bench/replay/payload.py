"""Synthetic KV blocks whose every byte follows from the block's key, made and checked at memory speed."""

import random

import xxhash

_PAD_SEED = 0x6B7666
_OFFSETS = 1 << 20
_STAMP_BYTES = 16
MIN_PAYLOAD_BYTES = 2 * _STAMP_BYTES


class PayloadMaker:
    """Makes the payload of any key.

    A payload is a 128-bit hash (xxh3) of its key, a window of one fixed random pad whose place follows from that hash,
    and the hash again. So bytes of another key, of another place in the block, or of two blocks mixed differ; and
    making or checking one costs a copy, not a generator's run. The pad does not compress, like real KV.
    """

    def __init__(self, size_bytes: int) -> None:
        """Prepare payloads of `size_bytes`. Raises `ValueError` below `MIN_PAYLOAD_BYTES`."""
        if size_bytes < MIN_PAYLOAD_BYTES:
            raise ValueError(f"a payload of {size_bytes} bytes; give at least {MIN_PAYLOAD_BYTES}")
        self.size_bytes = size_bytes
        self._window_bytes = size_bytes - 2 * _STAMP_BYTES
        self._pad = memoryview(random.Random(_PAD_SEED).randbytes(_OFFSETS + self._window_bytes))

    def make(self, key: bytes) -> bytes:
        """Return the payload of `key`."""
        stamp = xxhash.xxh3_128_digest(key)
        start = int.from_bytes(stamp[:4], "big") % _OFFSETS
        return b"".join((stamp, self._pad[start : start + self._window_bytes], stamp))

    def matches(self, key: bytes, payload: bytes) -> bool:
        """Tell whether `payload` is, byte for byte, what `make` returns for `key`."""
        return len(payload) == self.size_bytes and payload == self.make(key)
