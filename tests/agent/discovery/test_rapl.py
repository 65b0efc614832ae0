"""Measured energy: steps added up over wraps, resets counted as nothing, unreadable as None."""

from pathlib import Path

import pytest

from agent.discovery.rapl import RaplReader, rapl_domains
from tests.agent.discovery.sysfs import unreadable, write

ZONES = "sys/class/powercap"


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _zone(root: Path, zone: str, name: str, energy_uj: int, range_uj: int | None = 262_143_328_850) -> None:
    write(root, {f"{ZONES}/{zone}/name": name, f"{ZONES}/{zone}/energy_uj": str(energy_uj)})
    if range_uj is not None:
        write(root, {f"{ZONES}/{zone}/max_energy_range_uj": str(range_uj)})


def test_reader_without_rapl_reads_nothing(tmp_path: Path) -> None:
    assert RaplReader(tmp_path).read() == {}


def test_joules_are_counted_from_the_start_of_the_reader(tmp_path: Path) -> None:
    _zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    reader = RaplReader(tmp_path)
    assert reader.read() == {"package-0": 0.0}
    _zone(tmp_path, "intel-rapl:0", "package-0", 7_500_000)
    assert reader.read() == {"package-0": 2.5}
    assert reader.read() == {"package-0": 2.5}


def test_wrap_is_carried_over(tmp_path: Path) -> None:
    _zone(tmp_path, "intel-rapl:0", "package-0", 99_000_000, range_uj=100_000_000)
    reader = RaplReader(tmp_path)
    for value, joules in ((1_000_000, 2.0), (2_000_000, 3.0), (500_000, 101.5)):
        _zone(tmp_path, "intel-rapl:0", "package-0", value, range_uj=100_000_000)
        assert reader.read() == {"package-0": pytest.approx(joules)}


def test_reset_counter_adds_nothing(tmp_path: Path) -> None:
    clock = Clock()
    _zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    reader = RaplReader(tmp_path, clock)
    clock.now_s += 1
    _zone(tmp_path, "intel-rapl:0", "package-0", 10_000)  # as a wrap it would be 262 kJ in a second
    assert reader.read() == {"package-0": 0.0}
    _zone(tmp_path, "intel-rapl:0", "package-0", 1_010_000)
    assert reader.read() == {"package-0": 1.0}


def test_decrease_without_a_known_range_adds_nothing(tmp_path: Path) -> None:
    _zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000, range_uj=None)
    reader = RaplReader(tmp_path)
    _zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000, range_uj=None)
    assert reader.read() == {"package-0": 0.0}


def test_unreadable_counter_is_none_and_never_zero(tmp_path: Path) -> None:
    write(tmp_path, {f"{ZONES}/intel-rapl:0/name": "package-0"})
    unreadable(tmp_path, f"{ZONES}/intel-rapl:0/energy_uj")
    assert RaplReader(tmp_path).read() == {"package-0": None}


def test_counter_that_becomes_readable_starts_at_zero(tmp_path: Path) -> None:
    write(tmp_path, {f"{ZONES}/intel-rapl:0/name": "package-0"})
    reader = RaplReader(tmp_path)
    assert reader.read() == {"package-0": None}
    _zone(tmp_path, "intel-rapl:0", "package-0", 123_000_000)
    assert reader.read() == {"package-0": 0.0}


def test_parts_are_named_under_their_package_and_shown_once(tmp_path: Path) -> None:
    write(tmp_path, {f"{ZONES}/intel-rapl/enabled": "1"})
    for package in ("0", "1"):
        _zone(tmp_path, f"intel-rapl:{package}", f"package-{package}", 1)
        _zone(tmp_path, f"intel-rapl:{package}:0", "core", 1)
        _zone(tmp_path, f"intel-rapl:{package}:1", "dram", 1)
    _zone(tmp_path, "intel-rapl:2", "psys", 1)
    _zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1)
    names = [domain.name for domain in rapl_domains(tmp_path)]
    assert sorted(names) == [
        "package-0",
        "package-0/core",
        "package-0/dram",
        "package-1",
        "package-1/core",
        "package-1/dram",
        "psys",
    ]
    assert all("mmio" not in str(domain.path) for domain in rapl_domains(tmp_path))
