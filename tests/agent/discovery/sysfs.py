"""Build sysfs trees: by hand, and from the flattened samples ("path = value") of other projects."""

import os
import re
from pathlib import Path

_LINE = re.compile(r"^(/(?:sys|proc)/\S+) = (.*)$", re.DOTALL)


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write `files` (path below root → content) and return the root."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def link(root: Path, name: str, target: str) -> None:
    """Make `root`/name a relative symbolic link to `root`/target, as sysfs does."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (root / target).mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(root / target, path.parent.resolve()))


def unreadable(root: Path, name: str) -> None:
    """Make reading `root`/name fail with an OSError, for root too: a directory stands in its place."""
    (root / name).mkdir(parents=True)


def materialise(sample: Path, root: Path) -> Path:
    """Write a flattened sample as a tree below `root`, and the class links which the flattening lost."""
    current: tuple[str, str] | None = None
    files: dict[str, str | bytes] = {}
    for line in sample.read_text(errors="surrogateescape").split("\n"):
        found = _LINE.match(line)
        if found:
            current = (found[1], found[2])
        elif current:
            current = (current[0], current[1] + "\n" + line)
        if current:
            files[current[0].lstrip("/")] = current[1].rstrip("\n").encode(errors="surrogateescape") + b"\n"
    write(root, files)
    _class_links(root)
    return root


def _class_links(root: Path) -> None:
    for path in sorted((root / "sys").rglob("*")):
        if not path.is_dir() or path.is_symlink():
            continue
        place = str(path.relative_to(root))
        if re.fullmatch(r"nvme[0-9]+(c[0-9]+)?n[0-9]+", path.name) and (path / "size").exists():
            link(root, f"sys/block/{path.name}", place)
        elif place.startswith("sys/devices") and re.fullmatch(r"nvme[0-9]+", path.name):
            link(root, f"sys/class/nvme/{path.name}", place)
        elif place.startswith("sys/devices") and re.fullmatch(r"nvme-subsys[0-9]+", path.name):
            link(root, f"sys/class/nvme-subsystem/{path.name}", place)


def nvme_disk(root: Path, index: int = 0, *, controllers: int = 1, **facts: str) -> None:
    """Add one NVMe drive with one namespace; with several controllers it is a multipath one."""
    nqn = facts.get("nqn", f"nqn.2014-08.org.nvmexpress:drive{index}")
    common = {"model": facts.get("model", "ACME 3.84TB  "), "serial": facts.get("serial", f"S{index}XYZ     ")}
    common |= {"firmware_rev": facts.get("firmware", "1.2.3   "), "subsysnqn": nqn}
    subsystem = f"sys/devices/virtual/nvme-subsystem/nvme-subsys{index}"
    write(root, {f"{subsystem}/{key}": value + "\n" for key, value in common.items()})
    link(root, f"sys/class/nvme-subsystem/nvme-subsys{index}", subsystem)
    first = f"sys/devices/pci0000:00/0000:0{index}:00.0/nvme/nvme{index}"
    for number in range(controllers):
        name = f"nvme{index + number}"
        place = f"sys/devices/pci0000:00/0000:0{index + number}:00.0/nvme/{name}"
        state = {"transport": facts.get("transport", "pcie"), "state": facts.get(f"state{number}", "live")}
        write(root, {f"{place}/{key}": value + "\n" for key, value in (common | state).items()})
        if "temperature" in facts:
            write(root, {f"{place}/hwmon{number}/temp1_input": facts["temperature"] + "\n"})
        link(root, f"sys/class/nvme/{name}", place)
        link(root, f"{subsystem}/{name}", place)
        if controllers > 1:
            path = f"{place}/nvme{index}c{index + number}n1"
            write(root, {f"{path}/size": "7501476528\n", f"{path}/hidden": "1\n"})
            link(root, f"sys/block/nvme{index}c{index + number}n1", path)
    place = f"{subsystem if controllers > 1 else first}/nvme{index}n1"
    size = {"size": facts.get("size", "7501476528"), "nsid": "1", "queue/logical_block_size": "4096"}
    write(root, {f"{place}/{key}": value + "\n" for key, value in (size | {"queue/rotational": "0"}).items()})
    link(root, f"sys/block/nvme{index}n1", place)


def interface(root: Path, name: str, *, ids: tuple[str, str] | None = None, driver: str = "", **facts: str) -> None:
    """Add one network interface; with `ids` (PCI vendor, device) it has a device below a PCI bus."""
    place = f"sys/devices/virtual/net/{name}"
    if ids:
        function = f"sys/devices/pci0000:00/0000:00:{len(name):02x}.0-{name}"
        place = f"{function}/net/{name}"
        write(root, {f"{function}/vendor": f"0x{ids[0]}\n", f"{function}/device": f"0x{ids[1]}\n"})
        link(root, f"{function}/subsystem", "sys/bus/pci")
        if driver:
            link(root, f"{function}/driver", f"sys/bus/pci/drivers/{driver}")
        link(root, f"{place}/device", function)
    write(root, {f"{place}/{key}": value + "\n" for key, value in ({"mtu": "1500", "operstate": "up"} | facts).items()})
    link(root, f"sys/class/net/{name}", place)
