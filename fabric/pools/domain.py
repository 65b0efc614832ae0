"""Pure sums of a pool's capacity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TierSum:
    """One tier over several agents, in bytes and blocks. `agents` is how many reported it."""

    tier: str
    agents: int
    stored_bytes: int
    stored_blocks: int
    capacity_bytes: int
    limit_bytes: int

    @property
    def fill_ratio(self) -> float | None:
        """Return stored over capacity, None where there is no capacity."""
        return self.stored_bytes / self.capacity_bytes if self.capacity_bytes else None


def sum_tiers(reports: Iterable[Mapping[str, Mapping[str, int]]]) -> list[TierSum]:
    """Add up tier reports (per agent: tier → figures), DRAM before flash, then by name. A tier nobody reported is
    absent, not 0.
    """
    sums: dict[str, list[int]] = {}
    for report in reports:
        for tier, figures in report.items():
            row = sums.setdefault(tier, [0, 0, 0, 0, 0])
            names = ("stored_bytes", "stored_blocks", "capacity_bytes", "limit_bytes")
            for index, amount in enumerate((1, *(figures[name] for name in names))):
                row[index] += amount
    order = {"dram": 0, "flash": 1}
    return [TierSum(tier, *sums[tier]) for tier in sorted(sums, key=lambda tier: (order.get(tier, 2), tier))]
