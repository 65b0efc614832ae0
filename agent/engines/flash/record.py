"""One block in the flash file."""

from typing import NamedTuple

from agent.engines.flash.layout import NO_EXPIRY, Header
from agent.engines.flash.slots import Slots, SlotSpace


class Found(NamedTuple):
    """What is known of a record: from its maker, or from the headers that a restart found."""

    key: bytes
    size_bytes: int
    generation: int
    expires_at_s: float | None
    slots: Slots
    small: bool


class FlashRecord:
    """A handle on a block's slots, which are reused once nobody refers to it any more."""

    __slots__ = ("expires_at_s", "generation", "key", "let_go", "size_bytes", "slots", "space", "volume_id")

    def __init__(self, found: Found, space: SlotSpace, volume_id: bytes) -> None:
        self.key = found.key
        self.size_bytes = found.size_bytes
        self.generation = found.generation
        self.expires_at_s = found.expires_at_s
        self.slots = found.slots
        self.space = space
        self.volume_id = volume_id
        self.let_go = False
        """Set once no tier counts on this record any more; its header is not rewritten then."""

    def __del__(self) -> None:
        self.space.give_back(self.slots)

    def header(self, part: int, part_bytes: int, payload_crc32c: int, flags: int = 0) -> Header:
        """Return the header of one part."""
        return Header(
            volume_id=self.volume_id,
            generation=self.generation,
            value_bytes=self.size_bytes,
            expires_ms=milliseconds(self.expires_at_s),
            part=part,
            parts=len(self.slots),
            part_bytes=part_bytes,
            payload_crc32c=payload_crc32c,
            flags=flags,
            key=self.key,
        )


def milliseconds(at_s: float | None) -> int:
    """Return a moment as a header stores it."""
    return NO_EXPIRY if at_s is None else max(1, round(at_s * 1000))


def seconds(at_ms: int) -> float | None:
    """Return a moment that a header stores."""
    return None if at_ms == NO_EXPIRY else at_ms / 1000
