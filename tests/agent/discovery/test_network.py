"""Network interfaces: cables apart from software, unknown speeds as None, DPUs by their PCI id."""

from pathlib import Path

import pytest

from agent.discovery.network import network_devices
from tests.agent.discovery.sysfs import interface, link, unreadable, write


def test_network_devices_without_sysfs_is_empty(tmp_path: Path) -> None:
    assert network_devices(tmp_path) == []


def test_bluefield_port_is_a_physical_dpu_port(tmp_path: Path) -> None:
    interface(
        tmp_path,
        "p0",
        ids=("15b3", "a2dc"),
        driver="mlx5_core",
        address="5C:25:73:08:F3:62",
        speed="400000",
        mtu="9216",
    )
    (found,) = network_devices(tmp_path)
    assert (found.kind, found.dpu_model, found.driver) == ("physical", "BlueField-3", "mlx5_core")
    assert (found.mac, found.speed_mbps, found.mtu, found.state) == ("5c:25:73:08:f3:62", 400000, 9216, "up")
    assert (found.pci_vendor, found.pci_device) == ("15b3", "a2dc")


@pytest.mark.parametrize(
    ("device", "model"), [("a2d2", "BlueField"), ("a2d6", "BlueField-2"), ("a2d9", "BlueField-3 Lx"), ("1021", None)]
)
def test_dpu_model_is_named_only_for_known_ids(tmp_path: Path, device: str, model: str | None) -> None:
    interface(tmp_path, "eth0", ids=("15b3", device))
    assert network_devices(tmp_path)[0].dpu_model == model


def test_same_device_id_of_another_vendor_is_no_dpu(tmp_path: Path) -> None:
    interface(tmp_path, "eth0", ids=("8086", "a2dc"))
    assert network_devices(tmp_path)[0].dpu_model is None


@pytest.mark.parametrize("speed", ["-1", "0", "65535", "4294967295", "", "N/A", "1000 Mb/s"])
def test_speed_that_is_not_known_is_none(tmp_path: Path, speed: str) -> None:
    interface(tmp_path, "eth0", ids=("8086", "1593"), speed=speed)
    assert network_devices(tmp_path)[0].speed_mbps is None


def test_speed_that_reads_as_an_error_is_none(tmp_path: Path) -> None:
    interface(tmp_path, "eth0", ids=("8086", "1593"))
    unreadable(tmp_path / "sys/class/net/eth0", "speed")
    assert network_devices(tmp_path)[0].speed_mbps is None


def test_loopback_bridges_and_virtual_functions_are_no_cables(tmp_path: Path) -> None:
    interface(tmp_path, "lo", type="772", address="00:00:00:00:00:00", operstate="unknown")
    interface(tmp_path, "br0")
    interface(tmp_path, "ens1v0", ids=("15b3", "101e"))
    link(tmp_path, "sys/class/net/ens1v0/device/physfn", "sys/devices/pf")
    interface(tmp_path, "pf0hpf", ids=("15b3", "a2dc"), phys_port_name="pf0hpf")
    interface(tmp_path, "en3f0pf0sf0", ids=("15b3", "a2dc"), phys_port_name="pf0sf0")
    interface(tmp_path, "p1", ids=("15b3", "a2dc"), phys_port_name="p1")
    found = {fact.name: fact for fact in network_devices(tmp_path)}
    kinds = {name: fact.kind for name, fact in found.items()}
    assert kinds == {
        "lo": "loopback",
        "br0": "virtual",
        "ens1v0": "virtual",
        "pf0hpf": "virtual",
        "en3f0pf0sf0": "virtual",
        "p1": "physical",
    }
    assert (found["lo"].mac, found["lo"].state) == (None, "unknown")


def test_virtio_interface_shows_the_pci_function_below_it(tmp_path: Path) -> None:
    function = "sys/devices/pci0000:00/0000:00:03.0"
    place = f"{function}/virtio2/net/eth0"
    write(tmp_path, {f"{function}/vendor": "0x1af4", f"{function}/device": "0x1041", f"{place}/mtu": "1500"})
    write(tmp_path, {f"{function}/virtio2/vendor": "0x1af4", f"{function}/virtio2/device": "0x0001"})
    link(tmp_path, f"{function}/subsystem", "sys/bus/pci")
    link(tmp_path, f"{function}/virtio2/subsystem", "sys/bus/virtio")
    link(tmp_path, f"{place}/device", f"{function}/virtio2")
    link(tmp_path, "sys/class/net/eth0", place)
    (found,) = network_devices(tmp_path)
    assert (found.kind, found.pci_vendor, found.pci_device) == ("physical", "1af4", "1041")


def test_files_beside_interfaces_are_ignored(tmp_path: Path) -> None:
    write(tmp_path, {"sys/class/net/bonding_masters": "bond0\n"})
    assert network_devices(tmp_path) == []
