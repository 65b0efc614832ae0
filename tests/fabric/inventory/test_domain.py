"""Pure rules of discovery."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.protocol import BlockDeviceFact, HostInventory, NetworkDeviceFact
from fabric.inventory.domain import (
    MAX_BIGINT,
    clean_serial,
    clean_text,
    dpus_in,
    drives_in,
    host_facts,
    interface_facts,
    merge_facts,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " ",
        "None",
        "To Be Filled By O.E.M.",
        "to be filled by o.e.m. ",
        "Default string",
        "0",
        "0000000000",
        "XXXXXXXX",
        "........",
        "Not Specified",
        "123456789",
        "System Serial Number",
        "N/A",
        "unknown",
        "0x0000",
        "----",
    ],
)
def test_serial_number_that_names_nothing_is_empty(text: str | None) -> None:
    assert clean_serial(text) == ""


@pytest.mark.parametrize("text", ["S6PUNX0T", "5CD1234ABC", "10", "0001", "VMware-56 4d 1f", "QM00001"])
def test_real_serial_number_stays(text: str) -> None:
    assert clean_serial(f" {text} ") == text


@given(st.text(max_size=300), st.integers(1, 300))
def test_cleaned_text_is_one_printable_line_that_fits(text: str, max_chars: int) -> None:
    cleaned = clean_text(text, max_chars)
    assert len(cleaned) <= max_chars
    assert cleaned == "" or cleaned.isprintable()
    assert cleaned == cleaned.strip()
    assert clean_text(cleaned, max_chars) == cleaned


def test_namespaces_of_one_drive_are_one_drive() -> None:
    first, second = (
        BlockDeviceFact(name=f"nvme0n{n}", model="PM1743", serial="S1", nsid=n, capacity_bytes=n * GIB) for n in (1, 2)
    )
    (drive,) = drives_in([first, second])
    assert (drive.columns["name"], drive.columns["capacity_bytes"]) == ("nvme0n1", 3 * GIB)


def test_unknown_namespace_size_makes_the_drives_size_unknown() -> None:
    known = BlockDeviceFact(name="nvme0n1", model="M", serial="S1", capacity_bytes=GIB)
    unknown = BlockDeviceFact(name="nvme0n2", model="M", serial="S1")
    assert drives_in([known, unknown])[0].columns["capacity_bytes"] is None


def test_drives_without_serial_are_told_apart_by_name_and_zero_is_unknown() -> None:
    drives = drives_in([BlockDeviceFact(name=n, serial="0000", capacity_bytes=0) for n in ("vda", "vdb")])
    assert [drive.columns["name"] for drive in drives] == ["vda", "vdb"]
    assert {drive.columns["capacity_bytes"] for drive in drives} == {None}


def test_same_serial_under_another_model_is_another_drive() -> None:
    assert len(drives_in([BlockDeviceFact(name=m, serial="S1", model=m) for m in ("a", "b")])) == 2


def port(name: str, mac: str | None, dpu: str | None = "BlueField-3") -> NetworkDeviceFact:
    return NetworkDeviceFact(name=name, kind="physical", mac=mac, dpu_model=dpu)


def test_ports_of_one_card_are_one_dpu_and_two_cards_are_two() -> None:
    found = dpus_in(
        [
            port("p1", "B8:3F:D2:00:00:02"),
            port("p0", "b8:3f:d2:00:00:01"),
            port("p2", "b8:3f:d2:00:01:01"),
            port("eth0", "b8:3f:d2:00:00:09", dpu=None),
        ]
    )
    assert [(dpu.columns["base_mac"], dpu.columns["port_count"]) for dpu in found] == [
        ("b8:3f:d2:00:00:01", 2),
        ("b8:3f:d2:00:01:01", 1),
    ]


def test_number_that_no_column_holds_is_unknown() -> None:
    facts = host_facts(
        HostInventory(
            source="sysfs",
            observed_at_s=0,
            hostname="h",
            memory_bytes=MAX_BIGINT + 1,
            cpu_threads=0,
            machine_id_hash="x" * 65,
        )
    )
    assert (facts["memory_bytes"], facts["cpu_threads"], facts["machine_id_hash"]) == (None, None, None)
    assert interface_facts(NetworkDeviceFact(name="e", kind="virtual", speed_mbps=1 << 40))["speed_mbps"] is None


@pytest.mark.parametrize(
    ("domains", "unreadable", "expected"), [(["package-0"], [], True), ([], ["package-0"], False), ([], [], None)]
)
def test_energy_counters_are_readable_not_readable_or_not_there(domains, unreadable, expected) -> None:
    inventory = HostInventory(
        source="s", observed_at_s=0, hostname="h", rapl_domains=domains, rapl_unreadable_domains=unreadable
    )
    assert host_facts(inventory)["rapl_readable"] is expected


def test_merge_fills_gaps_of_a_declared_row_and_reports_the_rest() -> None:
    current = {"model": "A", "firmware": "", "capacity_bytes": None, "serial": "S"}
    found = {"model": "B", "firmware": "1.0", "capacity_bytes": 5, "serial": None}
    declared = merge_facts(current, found, declared=True)
    assert (declared.changes, declared.conflicts) == ({"firmware": "1.0", "capacity_bytes": 5}, {"model": ("A", "B")})
    discovered = merge_facts(current, found, declared=False)
    assert (discovered.changes["model"], discovered.conflicts) == ("B", {})
    assert "serial" not in discovered.changes


def test_declared_false_is_a_fact_and_not_a_gap() -> None:
    assert merge_facts({"rotational": False}, {"rotational": True}, declared=True).conflicts == {
        "rotational": (False, True)
    }
