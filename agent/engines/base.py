"""What every engine below DRAM answers, so that the tiers above need not know which one it is.

Records of an engine are handles: their space is reused when nobody refers to the handle any more, so a read under way
never meets the bytes of another block.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from agent.engines.dram import Value
from agent.engines.io_pool import Scratch


class CorruptBlock(Exception):
    """Stored bytes failed the check of key, generation, lengths or checksum. They must not be served."""


class EngineError(Exception):
    """The engine cannot start; the text is one line that names the remedy."""


class Record(Protocol):
    """One block as an engine stores it."""

    @property
    def key(self) -> bytes:
        """The full key."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the value."""

    @property
    def expires_at_s(self) -> float | None:
        """Unix time at which its writer lets it expire."""


R = TypeVar("R", bound=Record)


class BlockEngine(Protocol[R]):
    """Keeps records on a device. Calls with a `Scratch` block on the device and belong on an I/O thread."""

    def recover(self, now_s: float, threads: int) -> Sequence[R]:
        """Return every whole record that is not expired, oldest first. Called once, before anything else."""

    def reserve(self, key: bytes, size_bytes: int, expires_at_s: float | None) -> R | None:
        """Return a record with space for a block, or None when the device has no room for it."""

    def write(self, record: R, value: Value, scratch: Scratch) -> int:
        """Write a block; return the bytes that went to the device.

        Raises:
            OSError: the device refused; nothing of the record will be found again.
            CorruptBlock: the value changed in memory since it was received.
        """

    def read(self, record: R, value: Value, scratch: Scratch) -> int:
        """Fill `value` and seal it; return the bytes that came from the device.

        Raises:
            OSError: the device refused.
            CorruptBlock: what came is not the block that was written under this key.
        """

    def set_expiry(self, record: R, expires_at_s: float | None, scratch: Scratch) -> None:
        """Let a written record expire at another time, also after a restart. Raises `OSError`."""

    def forget(self, record: R) -> None:
        """Let go of a record which policy dropped: its space may be reused; until then a restart may find it again."""

    def erase(self, record: R, scratch: Scratch) -> None:
        """Make sure that no restart finds this record again. Raises `OSError`."""

    def has_stale(self, key: bytes) -> bool:
        """Tell whether a forgotten record of `key` could still be found by a restart."""

    def erase_stale(self, key: bytes, scratch: Scratch) -> None:
        """Make sure that no restart finds a forgotten record of `key`. Raises `OSError`."""

    def wipe(self) -> None:
        """Make sure that no restart finds anything that was written up to now. Raises `OSError`."""

    def close(self) -> None:
        """Let go of the device."""
