"""What the agent counts: plain integers, written by the data path, read as one snapshot (docs/contracts.md)."""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

COMMAND_BOUNDS_S = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the latency buckets in seconds; one more bucket, +Inf, follows."""


@dataclass(frozen=True, slots=True)
class HistogramSnapshot:
    """Latencies of one command. `counts[i]` are those in bucket i alone (not cumulative), the last one is +Inf."""

    command: str
    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float

    @property
    def count(self) -> int:
        """Number of commands."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class TierSnapshot:
    """One tier now: what it stores, what the policy allows, what the agent's own limit is."""

    tier: str
    stored_bytes: int
    stored_blocks: int
    capacity_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class StatsSnapshot:
    """All counters and gauges at one moment. Mappings hold only label values that have occurred."""

    lookup_blocks: dict[str, int]
    """By result: dram, flash, miss."""
    prefix_lookup_blocks: int
    prefix_hit_blocks: int
    get_blocks: dict[str, int]
    get_bytes: dict[str, int]
    """By tier."""
    set_blocks: int
    set_bytes: int
    set_refused: dict[str, int]
    """By reason: no_room, too_large."""
    evicted_blocks: dict[tuple[str, str], int]
    evicted_bytes: dict[tuple[str, str], int]
    """By (tier, reason): those of `kvcache.tiering.Reason`, and lost."""
    moved_blocks: dict[tuple[str, str], int]
    moved_bytes: dict[tuple[str, str], int]
    """By (source, target), counted when the bytes have arrived."""
    corrupt_blocks: dict[str, int]
    """By tier."""
    flash_read_bytes: int
    flash_write_bytes: int
    flash_errors: dict[str, int]
    """By operation: read, write. The device or file system refused; the block was not stored or served as a miss."""
    connections: int
    connections_total: int
    connections_closed: dict[str, int]
    """Connections that the agent ended, by reason: limit, protocol, auth, timeout, stalled, error."""
    tiers: tuple[TierSnapshot, ...]
    commands: tuple[HistogramSnapshot, ...]
    policy_generation: int = 0
    policy_applied: int = 0
    """Desired policies really put in force since the start. Both are filled in by `AgentRuntime.snapshot`."""


class Histogram:
    """Counts of durations in fixed buckets, without a lock: one thread writes, readers may be one event behind."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(COMMAND_BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(COMMAND_BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s


def _counts() -> "defaultdict[str, int]":
    return defaultdict(int)


def _pairs() -> "defaultdict[tuple[str, str], int]":
    return defaultdict(int)


@dataclass(slots=True)
class Stats:
    """The live counters. Those of blocks are written under the store's lock, those of connections by the RESP loop."""

    lookup_blocks: defaultdict[str, int] = field(default_factory=_counts)
    prefix_lookup_blocks: int = 0
    prefix_hit_blocks: int = 0
    get_blocks: defaultdict[str, int] = field(default_factory=_counts)
    get_bytes: defaultdict[str, int] = field(default_factory=_counts)
    set_blocks: int = 0
    set_bytes: int = 0
    set_refused: defaultdict[str, int] = field(default_factory=_counts)
    evicted_blocks: defaultdict[tuple[str, str], int] = field(default_factory=_pairs)
    evicted_bytes: defaultdict[tuple[str, str], int] = field(default_factory=_pairs)
    moved_blocks: defaultdict[tuple[str, str], int] = field(default_factory=_pairs)
    moved_bytes: defaultdict[tuple[str, str], int] = field(default_factory=_pairs)
    corrupt_blocks: defaultdict[str, int] = field(default_factory=_counts)
    flash_read_bytes: int = 0
    flash_write_bytes: int = 0
    flash_errors: defaultdict[str, int] = field(default_factory=_counts)
    connections: int = 0
    connections_total: int = 0
    connections_closed: defaultdict[str, int] = field(default_factory=_counts)
    commands: dict[str, Histogram] = field(default_factory=dict)

    def snapshot(self, tiers: tuple[TierSnapshot, ...]) -> StatsSnapshot:
        """Return a copy of everything; `tiers` are the gauges that only the store knows."""
        return StatsSnapshot(
            lookup_blocks=dict(self.lookup_blocks),
            prefix_lookup_blocks=self.prefix_lookup_blocks,
            prefix_hit_blocks=self.prefix_hit_blocks,
            get_blocks=dict(self.get_blocks),
            get_bytes=dict(self.get_bytes),
            set_blocks=self.set_blocks,
            set_bytes=self.set_bytes,
            set_refused=dict(self.set_refused),
            evicted_blocks=dict(self.evicted_blocks),
            evicted_bytes=dict(self.evicted_bytes),
            moved_blocks=dict(self.moved_blocks),
            moved_bytes=dict(self.moved_bytes),
            corrupt_blocks=dict(self.corrupt_blocks),
            flash_read_bytes=self.flash_read_bytes,
            flash_write_bytes=self.flash_write_bytes,
            flash_errors=dict(self.flash_errors),
            connections=self.connections,
            connections_total=self.connections_total,
            connections_closed=dict(self.connections_closed),
            tiers=tiers,
            commands=tuple(
                HistogramSnapshot(name, COMMAND_BOUNDS_S, tuple(histogram.counts), histogram.sum_s)
                for name, histogram in list(self.commands.items())
            ),
        )
