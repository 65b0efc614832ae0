"""Disks in sysfs, each listed once: no loop, RAM or mapped devices, no partitions, no second path to a namespace."""

import re
from pathlib import Path

from agent.discovery.nvme import (
    PATH_DISK,
    SECTOR_BYTES,
    NvmeDrive,
    drive_of,
    drives_without_disk,
    fact_of,
    list_controllers,
)
from agent.discovery.read import (
    clean_identity,
    entries,
    link_name,
    read_bytes,
    read_count,
    read_identity,
    read_int,
    read_text,
)
from agent.protocol import BlockDeviceFact

_NOT_A_DISK = re.compile(r"(loop|ram|zram|dm-|md|nbd|sr|fd|zd|drbd|mtdblock|rbd|bcache)[0-9]")
"""Devices without hardware of their own, or made of others: counting them would count the same bytes twice."""
_MAX_SECTORS = 1 << 54  # 8 EiB
_NVME = re.compile(r"nvme[0-9]+n[0-9]+")
_SCSI_TRANSPORTS = (
    ("usb", re.compile(r"/usb[0-9]+/")),
    ("sata", re.compile(r"/ata[0-9]+/")),
    ("sas", re.compile(r"/end_device-[0-9:]+/|/sas_")),
    ("fc", re.compile(r"/rport-[0-9:-]+/")),
    ("iscsi", re.compile(r"/session[0-9]+/")),
    ("virtio", re.compile(r"/virtio[0-9]+/")),
    ("hyperv", re.compile(r"/(vmbus|VMBUS)[^/]*/")),
)


def block_devices(root: Path) -> list[BlockDeviceFact]:
    """Return every disk below `root`/sys, and NVMe drives that have no namespace."""
    sys = root / "sys"
    controllers = list_controllers(sys)
    facts: list[BlockDeviceFact] = []
    drives: list[NvmeDrive] = []
    for disk in entries(sys / "block"):
        if _skip(disk):
            continue
        drive = drive_of(disk, controllers) if _NVME.fullmatch(disk.name) else None
        if drive is not None:
            drives.append(drive)
        facts.append(_with_size(disk, fact_of(drive, disk.name) if drive else _plain(disk)))
    return facts + drives_without_disk(sys, drives)


def _skip(disk: Path) -> bool:
    if _NOT_A_DISK.match(disk.name) or PATH_DISK.fullmatch(disk.name) or read_int(disk / "hidden") == 1:
        return True
    place = str(disk.resolve())
    return "/devices/virtual/" in place and "/devices/virtual/nvme-subsystem/" not in place


def _with_size(disk: Path, fact: BlockDeviceFact) -> BlockDeviceFact:
    sectors = read_count(disk / "size")
    block = read_count(disk / "queue/logical_block_size")
    # A hypervisor does not say what lies under its disk: the kernel's 1 there is a default, not a fact.
    rotational = None if fact.transport == "virtio" else read_int(disk / "queue/rotational")
    return fact.model_copy(
        update={
            "nsid": read_count(disk / "nsid"),
            # 0 is an empty drive bay or a drive that is not ready: nothing is known of its capacity.
            "capacity_bytes": sectors * SECTOR_BYTES if sectors and sectors < _MAX_SECTORS else None,
            "logical_block_bytes": block or None,
            "rotational": None if rotational is None else bool(rotational),
        }
    )


def _plain(disk: Path) -> BlockDeviceFact:
    device = disk / "device"
    vendor, model = read_identity(device / "vendor"), read_identity(device / "model") or read_identity(device / "name")
    # On virtio, `vendor` is the bus' number of the device, not a maker; on SATA it says "ATA" for every maker.
    named = vendor if vendor and model and vendor.upper() != "ATA" and not vendor.startswith("0x") else None
    return BlockDeviceFact(
        name=disk.name,
        transport=_transport(disk),
        model=f"{named} {model}" if named else model,
        serial=_serial(disk),
        firmware=read_text(device / "rev") or read_text(device / "fwrev"),
    )


def _transport(disk: Path) -> str | None:
    bus = link_name(disk / "device/subsystem")
    if bus == "scsi":
        place = f"{disk.resolve()}/"
        return next((name for name, pattern in _SCSI_TRANSPORTS if pattern.search(place)), "scsi")
    return bus or ("virtio" if disk.name.startswith("vd") else None)


def _serial(disk: Path) -> str | None:
    for path in (disk / "serial", disk / "device/serial"):
        if (found := read_identity(path)) is not None:
            return found
    # SCSI vital product data, page 0x80: four bytes of header, the last two the length (SPC-4, 7.8.13).
    page = read_bytes(disk / "device/vpd_pg80")
    if page is None or len(page) < 4:
        return None
    return clean_identity(page[4 : 4 + int.from_bytes(page[2:4])].decode(errors="replace"))
