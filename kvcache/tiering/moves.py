"""What the tiering decisions are made of: tiers, moves, answers."""

from enum import StrEnum
from typing import NamedTuple


class Tier(StrEnum):
    """Where a copy of a block is."""

    DRAM = "dram"
    FLASH = "flash"


class Reason(StrEnum):
    """Why a copy is written, moved or dropped."""

    ADMIT = "admit"
    PROMOTE = "promote"
    DEMOTE = "demote"
    EVICT = "evict"
    EXPIRE = "expire"
    DELETE = "delete"
    REPLACE = "replace"
    SHRINK = "shrink"


class Move(NamedTuple):
    """One thing to carry out, in the order of the list.

    - source None: write the value that was just handed in to `target` (admit).
    - target None: drop the copy in `source` (evict, expire, delete, replace, shrink; promote where the policy keeps
      no flash copy of what goes up).
    - both: write a copy of `source` to `target`. A demotion then frees the copy in DRAM; a promotion leaves the copy
      in flash, and where the policy does not keep it the next move drops it.
    """

    key: bytes
    source: Tier | None
    target: Tier | None
    size_bytes: int
    reason: Reason


class Lookup(NamedTuple):
    """Where each key was before the request changed anything, and how many lead without a gap."""

    tiers: list[Tier | None]
    prefix_blocks: int
    moves: list[Move]


class Insert(NamedTuple):
    """Whether each item is kept now, and the moves that keeping it takes."""

    admitted: list[bool]
    moves: list[Move]


class Usage(NamedTuple):
    """What one tier holds."""

    bytes: int
    blocks: int
