"""The same readers on sysfs as other projects recorded it (marker `shared`): their own output is the oracle."""

import re
from pathlib import Path

import pytest

from agent.discovery import RaplReader, discover_host
from agent.discovery.block import block_devices
from tests.agent.discovery.sysfs import materialise

pytestmark = pytest.mark.shared


@pytest.mark.parametrize("sample", ["tree-pcie", "tree-apple-nvme"])
def test_namespaces_equal_what_libnvme_lists(shared_dir: Path, tmp_path: Path, sample: str) -> None:
    folder = shared_dir / "samples/nvme/libnvme_sysfs"
    expected: dict[str, tuple[str, int, set[str]]] = {}
    nqn = name = ""
    for line in (folder / f"{sample}.out").read_text().splitlines():
        if found := re.match(r"\s+subsystem \S+ (nqn.*)", line):
            nqn = re.sub(r"\s+", " ", found[1]).strip()
        elif found := re.match(r"\s+ns (\d+) (\S+)", line):
            name = found[2]
            expected[name] = (nqn, int(found[1]), set())
        elif found := re.search(r"transport=(\S+)", line):
            expected[name][2].add(found[1])
    facts = {fact.name: fact for fact in block_devices(materialise(folder / f"{sample}.sysfs.txt", tmp_path))}
    assert facts.keys() == expected.keys()
    for disk, (subsystem_nqn, nsid, transports) in expected.items():
        assert re.sub(r"\s+", " ", facts[disk].nqn or "") == subsystem_nqn
        assert facts[disk].nsid == nsid
        assert {facts[disk].transport} == transports


def test_recorded_drives_have_clean_facts(shared_dir: Path, tmp_path: Path) -> None:
    sample = shared_dir / "samples/nvme/libnvme_sysfs/tree-pcie.sysfs.txt"
    facts = {fact.name: fact for fact in block_devices(materialise(sample, tmp_path))}
    drive = facts["nvme1n1"]
    assert (drive.model, drive.serial, drive.firmware) == ("3.2TB NVMe Gen4 U.2 SSD III", "S6RTNE0R900057", "REV.SN66")
    assert drive.capacity_bytes == 11233968 * 512


def test_apple_sample_with_nul_padding_is_read(shared_dir: Path, tmp_path: Path) -> None:
    sample = shared_dir / "samples/nvme/libnvme_sysfs/tree-apple-nvme.sysfs.txt"
    facts = block_devices(materialise(sample, tmp_path))
    assert {(fact.model, fact.serial, fact.firmware) for fact in facts} == {
        ("APPLE SSD AP2048Z", "0ba01e49841cc620", "532.140.")
    }
    assert [fact.nsid for fact in facts] == [1, 2, 3]


def test_procfs_excerpt_gives_drives_interfaces_and_energy(shared_dir: Path, tmp_path: Path) -> None:
    root = materialise(shared_dir / "samples/nvme/procfs_sysfs_excerpt.txt", tmp_path)
    found = discover_host(root)
    drives = {fact.name: fact for fact in found.block_devices}
    local = drives["nvme0n0"]
    assert (local.model, local.serial, local.firmware) == ("Samsung SSD 970 PRO 512GB", "S680HF8N190894I", "1B2QEXP7")
    assert (local.capacity_bytes, local.logical_block_bytes) == (3906250000 * 512, 4096)
    remote = drives["nvme-subsys0"]
    assert (remote.model, remote.serial, remote.transport) == ("Dell PowerStore", "SN12345678", "fc")
    assert drives["nvme-subsys1"].transport == "tcp"  # the live path's; the rdma one is still connecting
    (eth0,) = found.network_devices
    assert (eth0.mac, eth0.speed_mbps, eth0.state, eth0.dpu_model) == ("01:01:01:01:01:01", 1000, "up", None)
    assert found.rapl_domains == ["package-0", "package-0/core", "package-10"]
    assert RaplReader(root).read() == dict.fromkeys(found.rapl_domains, 0.0)
