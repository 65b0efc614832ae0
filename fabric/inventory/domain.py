"""Pure rules of inventory: which serial numbers mean nothing, what discovery may overwrite, how facts become
devices.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agent.protocol import BlockDeviceFact, HostInventory, NetworkDeviceFact

MAX_DEVICES: Final = 1024
"""Block devices, or network devices, in one report; more is a broken or hostile agent."""
MAX_BIGINT: Final = (1 << 63) - 1
MAX_INT: Final = (1 << 31) - 1

_PLACEHOLDERS: Final = frozenset(
    {
        "chassis serial number",
        "default string",
        "empty",
        "na",
        "n/a",
        "none",
        "not applicable",
        "not available",
        "not present",
        "not specified",
        "null",
        "o.e.m.",
        "oem",
        "serial",
        "serial number",
        "system serial number",
        "tbd",
        "to be filled by o.e.m.",
        "to be filled by oem",
        "unknown",
        "unspecified",
        "123456789",
        "0123456789",
        "1234567890",
    }
)


def clean_serial(text: str | None) -> str:
    """Return a serial number, or an empty text where it is missing or one that firmware puts there for want of a
    real one.
    """
    serial = clean_text(text, 255)
    if serial.casefold() in _PLACEHOLDERS or len(set(serial.casefold()) - set(" .-_x")) <= 1:
        return ""
    return serial


def clean_text(text: str | None, max_chars: int) -> str:
    """Return a discovered text as one printable line of at most `max_chars`; empty where there is none."""
    if text is None:
        return ""
    printable = "".join(c if c.isprintable() else " " for c in unicodedata.normalize("NFC", text))
    return " ".join(printable.split())[:max_chars].rstrip()


def bounded(value: int | None, largest: int = MAX_BIGINT, *, smallest: int = 0) -> int | None:
    """Return a discovered number, or None where it cannot be meant."""
    return value if value is not None and smallest <= value <= largest else None


@dataclass(frozen=True, slots=True)
class Merge:
    """What a discovery changes of a row, and what it found different but may not change (field → declared, found)."""

    changes: dict[str, Any] = field(default_factory=dict)
    conflicts: dict[str, tuple[Any, Any]] = field(default_factory=dict)


def merge_facts(current: Mapping[str, Any], found: Mapping[str, Any], *, declared: bool) -> Merge:
    """Compare a row with what was found. Unknown facts change nothing; in a declared row only empty fields are
    filled.
    """
    merge = Merge()
    for name, value in found.items():
        old = current[name]
        if value is None or value == "" or value == old:
            continue
        if declared and old is not None and old != "":
            merge.conflicts[name] = (old, value)
        else:
            merge.changes[name] = value
    return merge


def host_facts(inventory: HostInventory) -> dict[str, Any]:
    """Return the columns of a host that a report speaks of."""
    rapl = True if inventory.rapl_domains else False if inventory.rapl_unreadable_domains else None
    identity = clean_text(inventory.machine_id_hash, 255)
    return {
        "manufacturer": clean_text(inventory.vendor, 255),
        "model": clean_text(inventory.product, 255),
        "serial": clean_serial(inventory.serial),
        "machine_id_hash": identity if 0 < len(identity) <= 64 else None,
        "os": clean_text(inventory.os, 255),
        "kernel": clean_text(inventory.kernel, 255),
        "architecture": clean_text(inventory.architecture, 64),
        "cpu_model": clean_text(inventory.cpu_model, 255),
        "cpu_threads": bounded(inventory.cpu_threads, MAX_INT, smallest=1),
        "memory_bytes": bounded(inventory.memory_bytes, smallest=1),
        "rapl_readable": rapl,
    }


@dataclass(frozen=True, slots=True)
class DriveFacts:
    """One drive: its columns, and its temperature, which is measured anew each time."""

    columns: dict[str, Any]
    temperature_c: float | None


def drives_in(devices: Iterable[BlockDeviceFact]) -> list[DriveFacts]:
    """Return one entry per drive: the namespaces of one NVMe drive (same serial and model) are added up."""
    groups: dict[tuple[str, str, str], list[BlockDeviceFact]] = {}
    for device in devices:
        serial, name = clean_serial(device.serial), clean_text(device.name, 255)
        if name:
            key = (serial, clean_text(device.model, 255), "") if serial else ("", "", name)
            groups.setdefault(key, []).append(device)
    return [_drive(serial, members) for (serial, _, _), members in groups.items()]


def _drive(serial: str, members: list[BlockDeviceFact]) -> DriveFacts:
    first = members[0]
    sizes = [bounded(member.capacity_bytes, smallest=1) for member in members]
    columns = {
        "name": clean_text(first.name, 255),
        "model": clean_text(first.model, 255),
        "serial": serial,
        "firmware": clean_text(first.firmware, 255),
        "transport": clean_text(first.transport, 32),
        "nqn": clean_text(first.nqn, 255),
        "capacity_bytes": bounded(sum(size for size in sizes if size)) if all(sizes) else None,
        "logical_block_bytes": bounded(first.logical_block_bytes, MAX_INT, smallest=1),
        "rotational": first.rotational,
    }
    return DriveFacts(columns, first.temperature_c)


@dataclass(frozen=True, slots=True)
class DpuFacts:
    """One DPU as its ports show it. `key` is what the ports have in common: the model and the first five bytes of
    the MAC.
    """

    key: tuple[str, str]
    columns: dict[str, Any]


def dpu_key(device: NetworkDeviceFact) -> tuple[str, str] | None:
    """Return which DPU a port belongs to, None for a port of none. Ports of one card differ in the last byte of the
    MAC only.
    """
    model = clean_text(device.dpu_model, 255)
    return (model, clean_text(device.mac, 17).lower()[:14]) if model else None


def dpus_in(devices: Iterable[NetworkDeviceFact]) -> list[DpuFacts]:
    """Return one entry per DPU that the network devices show."""
    groups: dict[tuple[str, str], list[str]] = {}
    for device in devices:
        key = dpu_key(device)
        if key:
            groups.setdefault(key, []).append(clean_text(device.mac, 17).lower())
    found = []
    for key, macs in groups.items():
        base_mac = min(filter(None, macs), default="")
        columns = {
            "name": f"{key[0]} {base_mac}".strip()[:255],
            "model": key[0],
            "base_mac": base_mac,
            "port_count": bounded(len(macs), 32767),
        }
        found.append(DpuFacts(key, columns))
    return found


def interface_facts(device: NetworkDeviceFact) -> dict[str, Any]:
    """Return the columns of a network interface."""
    return {
        "kind": device.kind,
        "mac": clean_text(device.mac, 17).lower(),
        "speed_mbps": bounded(device.speed_mbps, MAX_INT, smallest=1),
        "mtu": bounded(device.mtu, MAX_INT, smallest=1),
        "state": clean_text(device.state, 32),
        "driver": clean_text(device.driver, 64),
    }
