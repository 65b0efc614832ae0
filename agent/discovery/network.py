"""Network interfaces in sysfs, and which of them belong to a known DPU."""

import re
from pathlib import Path
from typing import Literal

from agent.discovery.read import clean, entries, link_name, read_count, read_int, read_raw, read_text
from agent.protocol import NetworkDeviceFact

DPU_MODELS: dict[tuple[str, str], str] = {
    ("15b3", "a2d2"): "BlueField",
    ("15b3", "a2d6"): "BlueField-2",
    ("15b3", "a2d9"): "BlueField-3 Lx",
    ("15b3", "a2dc"): "BlueField-3",
    ("15b3", "a2df"): "BlueField-4",
}
"""PCI ids of the network controllers inside NVIDIA DPUs. Sources: the PCI id table of Linux' mlx5 driver
(drivers/net/ethernet/mellanox/mlx5/core/main.c) and, for a2d9, the PCI ID Project's pci.ids."""

_LOOPBACK_TYPE = 772  # ARPHRD_LOOPBACK
_ETHERNET_SPEEDS_END = 4_000_000
"""No link is faster (Mb/s); above lie the kernel's spellings of "unknown" (65535 below, 4294967295 above)."""
_UNKNOWN_SPEED = 65535
_ADDRESS = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5,31}")
_STATE = re.compile(r"[a-z]{2,16}")
_REPRESENTOR = re.compile(r"(c[0-9]+)?pf[0-9]+((vf|sf)[0-9]+|hpf)?")
"""Port names of the switch inside a NIC that stand for a function, not for a cable (devlink's naming)."""


def network_devices(root: Path) -> list[NetworkDeviceFact]:
    """Return every network interface below `root`/sys."""
    return [_fact(path) for path in entries(root / "sys/class/net") if path.is_dir()]


def _fact(interface: Path) -> NetworkDeviceFact:
    vendor, device = _pci_ids(interface)
    kind = _kind(interface)
    return NetworkDeviceFact(
        name=interface.name,
        kind=kind,
        mac=_mac(interface),
        speed_mbps=_speed_mbps(interface),
        mtu=read_count(interface / "mtu") or None,
        state=_state(interface),
        driver=link_name(interface / "device/driver"),
        pci_vendor=vendor,
        pci_device=device,
        dpu_model=DPU_MODELS.get((vendor, device)) if vendor and device else None,
    )


def _kind(interface: Path) -> Literal["physical", "virtual", "loopback"]:
    """Tell a cable from what software made: a virtual function and a switch's representor are no cables either."""
    if read_int(interface / "type") == _LOOPBACK_TYPE or interface.name == "lo":
        return "loopback"
    if not (interface / "device").exists() or (interface / "device/physfn").exists():
        return "virtual"
    return "virtual" if _REPRESENTOR.fullmatch(read_text(interface / "phys_port_name") or "") else "physical"


def _mac(interface: Path) -> str | None:
    """Return the hardware address (6 bytes; 20 on InfiniBand); the loopback's zeros are none."""
    address = (read_text(interface / "address") or "").lower()
    return address if _ADDRESS.fullmatch(address) and address.strip("0:") else None


def _state(interface: Path) -> str | None:
    """Return RFC 2863's state: `unknown` is one of them (the driver does not tell), not an absent value."""
    state = (read_raw(interface / "operstate") or "").strip()
    return state if _STATE.fullmatch(state) else None


def _speed_mbps(interface: Path) -> int | None:
    """Return the link's speed; a link that is down reads as -1 or as an error (EINVAL), both None."""
    speed = read_int(interface / "speed")
    if speed is None or not 0 < speed < _ETHERNET_SPEEDS_END or speed == _UNKNOWN_SPEED:
        return None
    return speed


def _pci_ids(interface: Path) -> tuple[str | None, str | None]:
    """Return vendor and device of the interface's PCI function, as four hex digits each.

    A virtio interface sits on its own bus, one step below the PCI function.
    """
    device = interface / "device"
    if link_name(device / "subsystem") == "virtio":
        device = device.resolve().parent
    if link_name(device / "subsystem") != "pci":
        return None, None
    return _hex_id(device / "vendor"), _hex_id(device / "device")


def _hex_id(path: Path) -> str | None:
    found = re.fullmatch(r"0x([0-9a-f]{4})", (clean(read_raw(path)) or "").lower())
    return found[1] if found else None
