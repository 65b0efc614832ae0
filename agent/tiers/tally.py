"""Counts read requests: by where their blocks were, and how many led without a gap.

A block on flash is a hit only once its bytes were read and checked, so a request is counted when the last of its blocks
is certain. What a client no longer wants counts as the hit it was.
"""

from agent.engines.dram import Value
from agent.stats import Stats
from agent.tiers.blocks import MISS, BlockRead, Found, Tally


class Tallies:
    """Keeps the counters of reads (call under the store's lock)."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def open(self, tally: Tally, found: list[Found]) -> None:
        """Begin a request; `count_found` must follow, and one `settle` for each block that is still on flash."""
        tally.pending = 1 + sum(isinstance(one, BlockRead) for one in found)

    def count_found(self, tally: Tally, found: list[Found]) -> None:
        """Count what is served from memory."""
        stats = self._stats
        for one, result in zip(found, tally.results, strict=True):
            if isinstance(one, Value):
                stats.get_blocks[result] += 1
                stats.get_bytes[result] += one.size_bytes
        self._end(tally)

    def settle(self, read: BlockRead, outcome: Value | None) -> None:
        """Count a block that was on flash: its bytes, or None when it was no hit after all."""
        tally = read.tally
        if tally is None:
            return
        if outcome is None:
            tally.results[read.index] = MISS
        else:
            result = tally.results[read.index]
            self._stats.get_blocks[result] += 1
            self._stats.get_bytes[result] += outcome.size_bytes
        self._end(tally)

    def abandon(self, read: BlockRead) -> None:
        """Count a block that was there and is not wanted any more."""
        if read.tally is not None:
            self._end(read.tally)

    def _end(self, tally: Tally) -> None:
        tally.pending -= 1
        if tally.pending:
            return
        stats, results = self._stats, tally.results
        for result in results:
            stats.lookup_blocks[result] += 1
        stats.prefix_lookup_blocks += len(results)
        stats.prefix_hit_blocks += results.index(MISS) if MISS in results else len(results)
