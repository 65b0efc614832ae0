"""The host as a whole: maker, operating system, processor, memory, and its devices."""

import hashlib
import hmac
import os
import platform
import re
import time
from pathlib import Path

from agent.discovery.block import block_devices
from agent.discovery.network import network_devices
from agent.discovery.rapl import rapl_domains
from agent.discovery.read import clean, clean_identity, read_identity, read_raw, read_text
from agent.protocol import HostInventory

SOURCE = "agent: sysfs, procfs, DMI; DPU models by PCI id"
_MACHINE_ID_CONTEXT = b"kvf-machine-id-v1"
_CPU_MODEL_KEYS = ("model name", "cpu model", "cpu", "uarch")
_KIB = 1024


def discover_host(root: Path = Path("/")) -> HostInventory:
    """Return what this host is, from the files below `root`. Needs no privilege; absent facts are None."""
    domains = [(domain.name, domain.energy_uj() is not None) for domain in rapl_domains(root)]
    cpuinfo = read_raw(root / "proc/cpuinfo") or ""
    dmi, tree = root / "sys/class/dmi/id", root / "sys/firmware/devicetree/base"
    return HostInventory(
        source=SOURCE,
        observed_at_s=time.time(),
        hostname=read_text(root / "proc/sys/kernel/hostname") or _of_this_host(root, platform.node()) or "unknown",
        machine_id_hash=_machine_id_hash(root),
        vendor=read_identity(dmi / "sys_vendor") or read_identity(dmi / "board_vendor"),
        product=read_identity(dmi / "product_name") or read_identity(tree / "model"),
        serial=read_identity(dmi / "product_serial") or read_identity(tree / "serial-number"),
        os=_os_name(root),
        kernel=read_text(root / "proc/sys/kernel/osrelease"),
        architecture=read_text(root / "proc/sys/kernel/arch") or _of_this_host(root, os.uname().machine),
        cpu_model=_cpu_model(cpuinfo),
        cpu_threads=_cpu_threads(root, cpuinfo),
        memory_bytes=_memory_bytes(root),
        rapl_domains=[name for name, readable in domains if readable],
        rapl_unreadable_domains=[name for name, readable in domains if not readable],
        block_devices=block_devices(root),
        network_devices=network_devices(root),
    )


def _of_this_host(root: Path, value: str) -> str | None:
    """Return what a system call says, but only when `root` is the running system's."""
    return clean(value) if root == Path("/") else None


def _machine_id_hash(root: Path) -> str | None:
    """Return a keyed hash of /etc/machine-id: the id itself is confidential (machine-id(5)) and stays on the host."""
    for name in ("etc/machine-id", "var/lib/dbus/machine-id"):
        value = read_identity(root / name)
        if value is not None:
            return hmac.new(value.encode(), _MACHINE_ID_CONTEXT, hashlib.sha256).hexdigest()
    return None


def _os_name(root: Path) -> str | None:
    text = read_raw(root / "etc/os-release") or read_raw(root / "usr/lib/os-release") or ""
    fields = dict(re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE))
    for key in ("PRETTY_NAME", "NAME"):
        if (value := clean(fields.get(key, "").strip().strip("\"'"))) is not None:
            return value
    return None


def _cpu_model(cpuinfo: str) -> str | None:
    """Return the processor's name; Arm gives only numbers, which are passed on as such."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip().lower(), value.strip())
    for key in _CPU_MODEL_KEYS:
        if (name := clean_identity(fields.get(key))) is not None:
            return re.sub(r"\s+", " ", name)
    if {"cpu implementer", "cpu part"} <= fields.keys():
        return f"Arm implementer {fields['cpu implementer']} part {fields['cpu part']}"
    return None


def _cpu_threads(root: Path, cpuinfo: str) -> int | None:
    online = read_text(root / "sys/devices/system/cpu/online")
    if online and re.fullmatch(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", online):
        ends = [part.split("-") for part in online.split(",")]
        return sum(int(part[-1]) - int(part[0]) + 1 for part in ends)
    return len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)) or None


def _memory_bytes(root: Path) -> int | None:
    """Return MemTotal: what the kernel manages, some percent less than the modules hold."""
    found = re.search(r"^MemTotal:\s+([0-9]+) kB$", read_raw(root / "proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * _KIB if found else None
