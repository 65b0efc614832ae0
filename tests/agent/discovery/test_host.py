"""The host: every fact optional, placeholders refused, identities hashed; and this very machine."""

import hashlib
import os
import platform
import random
from pathlib import Path
from typing import Any

import pytest

from agent.discovery import RaplReader, discover_host
from agent.protocol import HostInventory
from tests.agent.discovery.sysfs import interface, nvme_disk, unreadable, write

DMI = "sys/class/dmi/id"


def test_empty_root_gives_an_inventory_of_gaps(tmp_path: Path) -> None:
    found = discover_host(tmp_path)
    facts = found.model_dump(exclude={"source", "observed_at_s", "hostname"})
    assert found.hostname == "unknown"
    assert not any(facts.values())
    assert all(value is None or value == [] for value in facts.values())


def test_host_facts_are_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/sys/kernel/hostname": "node7\n",
            "proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
            "proc/sys/kernel/arch": "x86_64\n",
            "proc/meminfo": "MemTotal:       24684084 kB\nMemFree:        1 kB\n",
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)   Gold 6430\nprocessor\t: 1\n",
            "etc/os-release": 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
            f"{DMI}/sys_vendor": "Dell Inc.\n",
            f"{DMI}/product_name": "PowerEdge R760\n",
            f"{DMI}/product_serial": "7XK2N14\n",
        },
    )
    found = discover_host(tmp_path)
    assert (found.hostname, found.kernel, found.architecture) == ("node7", "6.1.0-28-amd64", "x86_64")
    assert (found.cpu_model, found.cpu_threads) == ("Intel(R) Xeon(R) Gold 6430", 2)
    assert (found.memory_bytes, found.os) == (24684084 * 1024, "Debian GNU/Linux 12 (bookworm)")
    assert (found.vendor, found.product, found.serial) == ("Dell Inc.", "PowerEdge R760", "7XK2N14")


@pytest.mark.parametrize(
    "placeholder",
    [
        "To Be Filled By O.E.M.", "Default string", "None", "", "   ", "N/A", "System Serial Number", "0123456789",
        "xxxxxxxxxx", "0000000000", "Not Specified", "\x00\x00", "...", "default STRING ",
    ],
)  # fmt: skip
def test_dmi_placeholders_are_none(tmp_path: Path, placeholder: str) -> None:
    write(tmp_path, {f"{DMI}/{name}": placeholder for name in ("sys_vendor", "product_name", "product_serial")})
    found = discover_host(tmp_path)
    assert (found.vendor, found.product, found.serial) == (None, None, None)


def test_serial_that_only_root_may_read_is_none(tmp_path: Path) -> None:
    unreadable(tmp_path, f"{DMI}/product_serial")
    assert discover_host(tmp_path).serial is None


def test_arm_board_is_named_by_its_device_tree(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sys/firmware/devicetree/base/model": b"NVIDIA BlueField-3 DPU\x00",
            "sys/firmware/devicetree/base/serial-number": b"MT2328XZ185R            \x00",
            "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n",
            "sys/devices/system/cpu/online": "0-7,9-15\n",
        },
    )
    found = discover_host(tmp_path)
    assert (found.product, found.serial) == ("NVIDIA BlueField-3 DPU", "MT2328XZ185R")
    assert (found.cpu_model, found.cpu_threads) == ("Arm implementer 0x41 part 0xd42", 15)


def test_machine_id_leaves_only_as_a_keyed_hash(tmp_path: Path) -> None:
    machine_id = "8c0b7d3f5e3a4a6ebb1f0c2d9e8f7a61"
    write(tmp_path, {"etc/machine-id": machine_id + "\n"})
    text = discover_host(tmp_path).model_dump_json()
    found = discover_host(tmp_path).machine_id_hash
    assert found
    assert len(found) == 64
    assert machine_id not in text
    assert hashlib.sha256(machine_id.encode()).hexdigest() not in text
    assert found == discover_host(tmp_path).machine_id_hash


@pytest.mark.parametrize("content", ["", "uninitialized\n"])
def test_machine_id_before_first_boot_is_none(tmp_path: Path, content: str) -> None:
    write(tmp_path, {"etc/machine-id": content})
    assert discover_host(tmp_path).machine_id_hash is None


def test_rapl_domains_are_told_apart_by_readability(tmp_path: Path) -> None:
    zones = "sys/class/powercap"
    write(tmp_path, {f"{zones}/intel-rapl:0/name": "package-0", f"{zones}/intel-rapl:1/name": "package-1"})
    write(tmp_path, {f"{zones}/intel-rapl:0/energy_uj": "1"})
    unreadable(tmp_path, f"{zones}/intel-rapl:1/energy_uj")
    found = discover_host(tmp_path)
    assert (found.rapl_domains, found.rapl_unreadable_domains) == (["package-0"], ["package-1"])


def test_overlong_and_binary_facts_do_not_break_the_message(tmp_path: Path) -> None:
    write(tmp_path, {f"{DMI}/product_name": "XY" * 300, f"{DMI}/sys_vendor": b"\xff\xfeAC\x00ME\xff\n"})
    found = discover_host(tmp_path)
    assert found.product == ("XY" * 300)[:255]
    assert found.vendor == "AC ME"
    assert HostInventory.model_validate_json(found.model_dump_json()) == found


def _empty_or_zero(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_empty_or_zero(item) for key, item in value.items() if key not in {"nsid", "rotational"})
    if isinstance(value, list):
        return any(_empty_or_zero(item) for item in value)
    return value == "" or (value == 0 and isinstance(value, int) and not isinstance(value, bool))


@pytest.mark.parametrize("seed", range(40))
def test_garbage_in_any_file_never_raises_and_never_becomes_zero(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    nvme_disk(tmp_path, controllers=chance.choice([1, 2]), temperature="40000")
    interface(tmp_path, "eth0", ids=("15b3", "a2dc"), speed="1", address="00:00:00:00:00:01")
    write(tmp_path, {f"{DMI}/product_serial": "X", "proc/meminfo": "MemTotal: 1 kB", "proc/cpuinfo": "processor: 0"})
    write(tmp_path, {"sys/class/powercap/intel-rapl:0/energy_uj": "1", "sys/class/powercap/intel-rapl:0/name": "p"})
    words: list[bytes] = [
        b"", b"0", b"-1", b"N/A", b"None", b"null", b"nan", b"1e999", b"9" * 400, "٣".encode(), b"1_0", b" 12 ",
        b"\x00", b"\xff\xfe", b"0x", os.urandom(64),
    ]  # fmt: skip
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file() and not path.is_symlink() and chance.random() < 0.6:
            path.write_bytes(chance.choice(words))
    found = discover_host(tmp_path)
    assert not _empty_or_zero(found.model_dump())
    assert HostInventory.model_validate_json(found.model_dump_json()) == found


def test_this_machine_for_real() -> None:
    found = discover_host()
    assert found.hostname == platform.node()
    assert found.kernel == platform.release()
    assert found.architecture == platform.machine()
    assert found.cpu_threads == os.cpu_count()
    assert found.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    interfaces = {fact.name: fact for fact in found.network_devices}
    assert interfaces["lo"].kind == "loopback"
    assert not any(fact.name.startswith(("loop", "ram", "zram")) for fact in found.block_devices)
    assert set(RaplReader().read()) == {*found.rapl_domains, *found.rapl_unreadable_domains}
