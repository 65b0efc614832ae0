"""Energy counters of the processor (RAPL, Linux powercap): which there are, and the joules measured since the start."""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.discovery.read import entries, read_count, read_text

_ZONE = re.compile(r"(?P<control>intel-rapl(?:-mmio)?):(?P<package>[0-9a-f]+)(?::(?P<part>[0-9a-f]+))?")
MAX_DOMAIN_POWER_W = 10_000.0
"""More than any socket draws: a step above it is a counter that was reset, not one that wrapped."""


@dataclass(frozen=True, slots=True)
class RaplDomain:
    """One counter. `name` is `package-0`, or `package-0/core` for a part that the package's counter includes."""

    name: str
    path: Path

    def energy_uj(self) -> int | None:
        """Return the counter in microjoules; None where it is unreadable (root only since Linux 5.10)."""
        return read_count(self.path / "energy_uj")

    def range_uj(self) -> int | None:
        """Return the value at which the counter wraps to 0."""
        return read_count(self.path / "max_energy_range_uj")


def rapl_domains(root: Path) -> list[RaplDomain]:
    """Return all counters. The same package shown again through memory-mapped registers is left out."""
    zones = [(found, path) for path in entries(root / "sys/class/powercap") if (found := _ZONE.fullmatch(path.name))]
    zones.sort(key=lambda zone: zone[0]["control"] != "intel-rapl")
    names: dict[tuple[str, str], str] = {}
    domains: dict[str, RaplDomain] = {}
    for found, path in zones:
        label = read_text(path / "name") or path.name
        if found["part"] is None:
            names[found["control"], found["package"]] = label
        else:
            label = f"{names.get((found['control'], found['package']), found['package'])}/{label}"
        if label not in domains:
            domains[label] = RaplDomain(label, path)
    return list(domains.values())


class RaplReader:
    """Adds up what the counters moved since this reader was made. May be called from several threads.

    It must be read at least once between two wraps of a counter (262 kJ: every 20 minutes at 200 W).
    """

    def __init__(self, root: Path = Path("/"), monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._domains = rapl_domains(root)
        self._last: dict[str, tuple[int, float]] = {}
        self._total_uj: dict[str, int] = {}
        self._lock = threading.Lock()
        self.read()

    def read(self) -> dict[str, float | None]:
        """Return the joules of each domain since the start; None where the counter cannot be read now."""
        with self._lock:
            return {domain.name: self._advance(domain) for domain in self._domains}

    def _advance(self, domain: RaplDomain) -> float | None:
        value, now_s = domain.energy_uj(), self._monotonic_s()
        if value is None:
            return None
        last, last_s = self._last.get(domain.name, (value, now_s))
        step = value - last
        if step < 0:
            step = self._wrapped(domain, last, value, now_s - last_s)
        self._last[domain.name] = (value, now_s)
        self._total_uj[domain.name] = self._total_uj.get(domain.name, 0) + step
        return self._total_uj[domain.name] / 1e6

    @staticmethod
    def _wrapped(domain: RaplDomain, last: int, value: int, elapsed_s: float) -> int:
        """Return the microjoules between two readings of which the second is lower; 0 after a reset."""
        limit = domain.range_uj()
        if limit is None or last > limit:
            return 0
        step = limit - last + value
        return step if step <= MAX_DOMAIN_POWER_W * 1e6 * max(elapsed_s, 1.0) else 0
