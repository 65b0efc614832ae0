"""NVMe drives in sysfs: subsystems, their controllers (paths), namespaces and temperatures."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.discovery.read import entries, link_name, read_identity, read_int, read_text
from agent.protocol import BlockDeviceFact

SECTOR_BYTES = 512
"""Unit of sysfs' `size`, whatever the logical block is."""

_CONTROLLER = re.compile(r"nvme[0-9]+")
_OWNER = re.compile(r"nvme(-subsys)?[0-9]+")
PATH_DISK = re.compile(r"nvme[0-9]+c[0-9]+n[0-9]+")
"""One path to a multipath namespace; the namespace itself is listed once, as nvmeXnY."""


@dataclass(frozen=True, slots=True)
class NvmeDrive:
    """A subsystem with its controllers, or a lone controller where the kernel shows no subsystem."""

    name: str
    nqn: str | None
    model: str | None
    serial: str | None
    firmware: str | None
    transport: str | None
    temperature_c: float | None


def drive_of(disk: Path, controllers: Iterable[Path]) -> NvmeDrive | None:
    """Return the drive that the namespace `disk` (a directory of /sys/block) is on.

    The kernel places a namespace under its controller, a multipath one under its subsystem.
    """
    for owner in (disk.resolve().parent, (disk / "device").resolve()):
        if _OWNER.fullmatch(owner.name):
            return _drive(owner, controllers)
    return None


def drives_without_disk(sys: Path, seen: Iterable[NvmeDrive]) -> list[BlockDeviceFact]:
    """Return the drives that have no namespace to show: unformatted, or all their paths lost."""
    controllers = list_controllers(sys)
    known = {(drive.nqn or drive.name) for drive in seen}
    found = []
    for owner in [*entries(sys / "class/nvme-subsystem"), *controllers]:
        drive = _drive(owner, controllers)
        if (drive.nqn or drive.name) not in known:
            known.add(drive.nqn or drive.name)
            found.append(fact_of(drive, drive.name))
    return found


def list_controllers(sys: Path) -> list[Path]:
    """Return the directories of all NVMe controllers."""
    return [path for path in entries(sys / "class/nvme") if _CONTROLLER.fullmatch(path.name)]


def fact_of(drive: NvmeDrive, name: str) -> BlockDeviceFact:
    """Return what is known of a drive itself, without a namespace's size."""
    return BlockDeviceFact(
        name=name,
        transport=drive.transport,
        model=drive.model,
        serial=drive.serial,
        firmware=drive.firmware,
        nqn=drive.nqn,
        temperature_c=drive.temperature_c,
    )


def _drive(owner: Path, controllers: Iterable[Path]) -> NvmeDrive:
    nqn = read_text(owner / "subsysnqn")
    paths = _live_first(_controllers_of(owner, nqn, controllers))
    sources = [owner, *paths]
    temperatures = [value for path in paths if (value := _temperature_c(path)) is not None]
    return NvmeDrive(
        name=owner.name,
        nqn=nqn,
        model=_first(read_identity(path / "model") for path in sources),
        serial=_first(read_identity(path / "serial") for path in sources),
        firmware=_first(read_text(path / "firmware_rev") for path in sources),
        transport=_first(_transport(path) for path in paths),
        temperature_c=temperatures[0] if temperatures else None,
    )


def _controllers_of(owner: Path, nqn: str | None, controllers: Iterable[Path]) -> list[Path]:
    if _CONTROLLER.fullmatch(owner.name):
        return [owner]
    below = [path for path in entries(owner) if _CONTROLLER.fullmatch(path.name)]
    return below or [path for path in controllers if nqn and read_text(path / "subsysnqn") == nqn]


def _live_first(paths: list[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: read_text(path / "state") != "live")


def _transport(controller: Path) -> str | None:
    """Return pcie, tcp, rdma, fc, …; kernels before 4.15 name no transport, and the bus tells."""
    named = read_text(controller / "transport")
    return named or ("pcie" if link_name(controller / "device/subsystem") == "pci" else None)


def _temperature_c(controller: Path) -> float | None:
    """Return the composite temperature (sysfs gives thousandths of a degree Celsius); None when no sensor is shown."""
    for hwmon in [*entries(controller), *entries(controller / "hwmon"), *entries(controller / "device/hwmon")]:
        if not hwmon.name.startswith("hwmon"):
            continue
        milli = read_int(hwmon / "temp1_input")
        # A drive without a sensor reports 0 K = -273.15 °C.
        if milli is not None and -100_000 < milli < 250_000:
            return milli / 1000
    return None


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value is not None), None)
