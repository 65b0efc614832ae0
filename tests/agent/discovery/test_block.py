"""Disks: each once, with what sysfs says and nothing that it does not."""

from pathlib import Path

import pytest

from agent.discovery.block import block_devices
from agent.protocol import BlockDeviceFact
from tests.agent.discovery.sysfs import link, nvme_disk, unreadable, write


def _disk(root: Path, name: str, place: str, bus: str, files: dict[str, str | bytes]) -> None:
    """Add a disk whose device directory is `place` (below sys/devices) on `bus`."""
    device = f"sys/devices/{place}"
    write(
        root, {f"{device}/block/{name}/{key}": value for key, value in files.items() if not key.startswith("device/")}
    )
    write(root, {f"{device}/{key.removeprefix('device/')}": v for key, v in files.items() if key.startswith("device/")})
    link(root, f"{device}/block/{name}/device", device)
    link(root, f"{device}/subsystem", f"sys/bus/{bus}")
    link(root, f"sys/block/{name}", f"{device}/block/{name}")


def test_block_devices_without_sysfs_is_empty(tmp_path: Path) -> None:
    assert block_devices(tmp_path) == []


def test_nvme_disk_has_the_facts_of_its_controller(tmp_path: Path) -> None:
    nvme_disk(tmp_path, temperature="41850")
    assert block_devices(tmp_path) == [
        BlockDeviceFact(
            name="nvme0n1",
            transport="pcie",
            model="ACME 3.84TB",
            serial="S0XYZ",
            firmware="1.2.3",
            nqn="nqn.2014-08.org.nvmexpress:drive0",
            nsid=1,
            capacity_bytes=7501476528 * 512,
            logical_block_bytes=4096,
            rotational=False,
            temperature_c=41.85,
        )
    ]


def test_multipath_namespace_is_listed_once_with_a_live_paths_transport(tmp_path: Path) -> None:
    nvme_disk(tmp_path, controllers=2, state0="dead", temperature="30000")
    write(tmp_path, {"sys/devices/pci0000:00/0000:00:00.0/nvme/nvme0/transport": "rdma\n"})
    (found,) = block_devices(tmp_path)
    assert (found.name, found.transport, found.serial, found.temperature_c) == ("nvme0n1", "pcie", "S0XYZ", 30.0)


def test_namespaces_of_one_drive_share_serial_and_nqn_and_differ_in_nsid(tmp_path: Path) -> None:
    nvme_disk(tmp_path)
    second = "sys/devices/pci0000:00/0000:00:00.0/nvme/nvme0/nvme0n2"
    write(tmp_path, {f"{second}/size": "2048\n", f"{second}/nsid": "7\n"})
    link(tmp_path, "sys/block/nvme0n2", second)
    first, other = block_devices(tmp_path)
    assert (first.serial, first.nqn) == (other.serial, other.nqn)
    assert (first.nsid, other.nsid, other.capacity_bytes) == (1, 7, 2048 * 512)


def test_drive_without_a_namespace_is_still_a_drive(tmp_path: Path) -> None:
    nvme_disk(tmp_path)
    (tmp_path / "sys/block/nvme0n1").unlink()
    (found,) = block_devices(tmp_path)
    assert (found.name, found.serial, found.capacity_bytes, found.nsid) == ("nvme-subsys0", "S0XYZ", None, None)


def test_old_kernel_without_transport_and_subsystem_still_says_pcie(tmp_path: Path) -> None:
    place = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme3"
    write(tmp_path, {f"{place}/model": "Old", f"{place}/serial": "OLD1", f"{place}/nvme3n1/size": "8"})
    write(tmp_path, {"sys/devices/pci0000:00/0000:01:00.0/hwmon/hwmon4/temp1_input": "20000"})
    link(tmp_path, "sys/devices/pci0000:00/0000:01:00.0/subsystem", "sys/bus/pci")
    link(tmp_path, f"{place}/device", "sys/devices/pci0000:00/0000:01:00.0")
    link(tmp_path, "sys/class/nvme/nvme3", place)
    link(tmp_path, "sys/block/nvme3n1", f"{place}/nvme3n1")
    (found,) = block_devices(tmp_path)
    assert (found.transport, found.serial, found.temperature_c) == ("pcie", "OLD1", 20.0)


@pytest.mark.parametrize("reading", ["-273150", "", "N/A", "9223372036854775794", "1e5"])
def test_temperature_that_is_no_temperature_is_none(tmp_path: Path, reading: str) -> None:
    nvme_disk(tmp_path, temperature=reading)
    assert block_devices(tmp_path)[0].temperature_c is None


@pytest.mark.parametrize("serial", ["SN: 00000", "To Be Filled By O.E.M.", "00000000", "N/A", "  ", "Default string"])
def test_placeholder_serial_is_none(tmp_path: Path, serial: str) -> None:
    nvme_disk(tmp_path, serial=serial)
    assert block_devices(tmp_path)[0].serial is None


def test_size_zero_is_unknown_capacity(tmp_path: Path) -> None:
    nvme_disk(tmp_path, size="0")
    assert block_devices(tmp_path)[0].capacity_bytes is None


def test_sata_disk_takes_serial_from_vital_product_data(tmp_path: Path) -> None:
    place = "pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0"
    page = b"\x00\x80\x00\x14" + b"  WD-WCC4N5PA       " + b"trailing"
    files: dict[str, str | bytes] = {"size": "1000", "queue/rotational": "1", "device/vendor": "ATA     "}
    files |= {"device/model": "WDC WD40EFRX-68N", "device/rev": "0A82", "device/vpd_pg80": page}
    _disk(tmp_path, "sda", place, "scsi", files)
    (found,) = block_devices(tmp_path)
    assert (found.transport, found.model, found.serial) == ("sata", "WDC WD40EFRX-68N", "WD-WCC4N5PA")
    assert (found.firmware, found.rotational, found.capacity_bytes) == ("0A82", True, 512_000)


@pytest.mark.parametrize(
    ("place", "transport"),
    [
        ("pci0000:00/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0", "usb"),
        ("pci0000:00/0000:03:00.0/host0/port-0:1/end_device-0:1/target0:0:1/0:0:1:0", "sas"),
        ("pci0000:00/0000:05:00.0/host1/rport-1:0-2/target1:0:0/1:0:0:0", "fc"),
        ("platform/host9/session1/target9:0:0/9:0:0:0", "iscsi"),
        ("pci0000:00/0000:00:05.0/virtio3/host0/target0:0:0/0:0:0:0", "virtio"),
        ("something/host0/target0:0:0/0:0:0:0", "scsi"),
    ],
)
def test_scsi_transport_is_read_from_the_devices_place(tmp_path: Path, place: str, transport: str) -> None:
    _disk(tmp_path, "sda", place, "scsi", {"size": "8", "device/vendor": "HPE", "device/model": "MK000480"})
    (found,) = block_devices(tmp_path)
    assert (found.transport, found.model) == (transport, "HPE MK000480")


def test_virtio_disk_is_kept_and_its_rotation_is_unknown(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "size": "16",
        "serial": "vol-1",
        "queue/rotational": "1",
        "device/vendor": "0x1af4",
    }
    _disk(tmp_path, "vda", "pci0000:00/0000:00:04.0/virtio1", "virtio", files)
    (found,) = block_devices(tmp_path)
    assert (found.name, found.transport, found.serial, found.rotational) == ("vda", "virtio", "vol-1", None)


@pytest.mark.parametrize("name", ["loop0", "ram1", "zram0", "dm-3", "md127", "nbd0", "sr0", "drbd1"])
def test_devices_without_hardware_are_left_out(tmp_path: Path, name: str) -> None:
    write(tmp_path, {f"sys/devices/elsewhere/{name}/size": "8"})
    link(tmp_path, f"sys/block/{name}", f"sys/devices/elsewhere/{name}")
    assert block_devices(tmp_path) == []


def test_unknown_virtual_device_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"sys/devices/virtual/block/newthing0/size": "8"})
    link(tmp_path, "sys/block/newthing0", "sys/devices/virtual/block/newthing0")
    assert block_devices(tmp_path) == []


def test_unreadable_files_leave_gaps_and_no_error(tmp_path: Path) -> None:
    nvme_disk(tmp_path)
    place = tmp_path / "sys/devices/pci0000:00/0000:00:00.0/nvme/nvme0/nvme0n1"
    (place / "size").unlink()
    unreadable(place, "size")
    assert block_devices(tmp_path)[0].capacity_bytes is None


def test_drives_are_listed_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for index in (2, 0, 9):
        nvme_disk(tmp_path, index)
    assert [fact.name for fact in block_devices(tmp_path)] == ["nvme0n1", "nvme2n1", "nvme9n1"]
