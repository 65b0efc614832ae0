"""What agents discover: upsert, vanish, reappear, move; declared facts stand."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agent.protocol import BlockDeviceFact, HostInventory, NetworkDeviceFact
from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor, ActorKind, Role
from fabric.core.errors import Invalid
from fabric.inventory import services
from fabric.inventory.models import Dpu, Host, LifeCycle, NetworkInterface, Source, Ssd

pytestmark = pytest.mark.django_db
AGENT = Actor(ActorKind.AGENT, "11111111-1111-4111-8111-111111111111", "agent-1", Role.VIEWER)
DRIVE = BlockDeviceFact(name="nvme0n1", transport="pcie", model="PM1743", serial="S1", capacity_bytes=1 << 40)
BARE = BlockDeviceFact(name="vda", capacity_bytes=1 << 30)
PORT = NetworkDeviceFact(
    name="enp1s0f0",
    kind="physical",
    mac="B8:3F:D2:00:00:01",
    speed_mbps=400_000,
    mtu=9000,
    state="up",
    dpu_model="BlueField-3",
)


def report(**changes: Any) -> HostInventory:
    """Return a report of one host with a drive, a bare disk and a DPU port."""
    facts: dict[str, Any] = {
        "source": "sysfs",
        "observed_at_s": 1.0,
        "hostname": "gpu-01",
        "machine_id_hash": "m" * 64,
        "vendor": "Supermicro",
        "product": "SYS-421",
        "serial": "HOST-1",
        "os": "Debian 12",
        "kernel": "6.1.0",
        "cpu_threads": 64,
        "memory_bytes": 1 << 40,
        "block_devices": [DRIVE, BARE],
        "network_devices": [PORT],
    }
    return HostInventory(**(facts | changes))


def discover(**changes: Any) -> Host:
    return services.record_host_inventory(actor=AGENT, inventory=report(**changes))


def verbs(**filters: Any) -> list[tuple[str, str]]:
    return list(AuditEntry.objects.filter(**filters).order_by("at").values_list("verb", "object_label"))


def test_first_report_makes_host_drives_dpu_and_ports_with_source_and_time() -> None:
    before = timezone.now()
    host = discover()
    assert (host.name, host.model, host.serial, host.memory_bytes) == ("gpu-01", "SYS-421", "HOST-1", 1 << 40)
    assert (host.source, host.source_detail) == (Source.DISCOVERED, "agent agent-1 via sysfs")
    assert host.first_seen_at is not None
    assert before <= host.first_seen_at <= timezone.now()
    assert list(host.ssds.values_list("name", "serial", "capacity_bytes")) == [
        ("nvme0n1", "S1", 1 << 40),
        ("vda", "", 1 << 30),
    ]
    dpu = Dpu.objects.get()
    assert (dpu.host, dpu.model, dpu.base_mac, dpu.port_count) == (host, "BlueField-3", "b8:3f:d2:00:00:01", 1)
    interface = NetworkInterface.objects.get()
    assert (interface.host, interface.dpu, interface.speed_mbps, interface.mtu) == (host, dpu, 400_000, 9000)
    assert {verb for verb, _ in verbs()} == {"discover"}
    assert len(verbs()) == 4


def test_same_report_again_changes_only_the_time_of_sight() -> None:
    host = discover()
    count = AuditEntry.objects.count()
    versions = [host.version, *Ssd.objects.values_list("version", flat=True)]
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    again = discover()
    assert again.pk == host.pk
    assert again.last_seen_at is not None
    assert timezone.now() - again.last_seen_at < timedelta(minutes=1)
    assert AuditEntry.objects.count() == count
    assert [again.version, *Ssd.objects.values_list("version", flat=True)] == versions
    assert (Host.objects.count(), Ssd.objects.count(), Dpu.objects.count(), NetworkInterface.objects.count()) == (
        1,
        2,
        1,
        1,
    )


def test_new_fact_replaces_the_old_discovered_one_and_is_audited() -> None:
    host = discover()
    assert discover(kernel="6.6.0").kernel == "6.6.0"
    row = AuditEntry.objects.get(object_id=str(host.pk), before__has_key="kernel")
    assert (row.before, row.after) == ({"kernel": "6.1.0"}, {"kernel": "6.6.0"})


def test_fact_that_could_not_be_read_this_time_is_kept() -> None:
    discover()
    host = discover(serial=None, memory_bytes=None, os=None)
    assert (host.serial, host.memory_bytes, host.os) == ("HOST-1", 1 << 40, "Debian 12")


def test_host_is_known_by_machine_id_whatever_its_name_and_serial() -> None:
    first = discover()
    assert discover(hostname="renamed", serial="OTHER").pk == first.pk
    assert Host.objects.get().name == "gpu-01", "a name is an operator's to change"


def test_reinstalled_host_is_known_by_its_serial_number() -> None:
    first = discover()
    again = discover(machine_id_hash="n" * 64)
    assert (again.pk, again.machine_id_hash) == (first.pk, "n" * 64)


def test_declared_host_is_found_by_serial_or_by_name(operator: Actor) -> None:
    by_name = services.create_host(actor=operator, name="GPU-01")
    assert discover().pk == by_name.pk
    by_serial = services.create_host(actor=operator, name="rack-7-node-2", serial="HOST-2")
    assert discover(machine_id_hash="x" * 64, serial="HOST-2", hostname="other").pk == by_serial.pk


def test_other_machine_with_the_same_name_is_another_host() -> None:
    first = discover()
    second = discover(machine_id_hash="n" * 64, serial="HOST-2", block_devices=[BARE])
    assert first.pk != second.pk
    assert Ssd.objects.filter(name="vda").count() == 2


def test_placeholder_serials_do_not_make_two_machines_one() -> None:
    first = discover(serial="Default string", machine_id_hash="a" * 64, hostname="one")
    second = discover(serial="Default string", machine_id_hash="b" * 64, hostname="two")
    assert first.pk != second.pk
    assert set(Host.objects.values_list("serial", flat=True)) == {""}


def test_declared_facts_stand_gaps_are_filled_and_the_conflict_is_told_once(operator: Actor) -> None:
    host = services.create_host(actor=operator, name="gpu-01", model="declared model")
    for _ in range(3):
        discover()
    host.refresh_from_db()
    assert (host.model, host.manufacturer, host.source) == ("declared model", "Supermicro", Source.DECLARED)
    conflict = AuditEntry.objects.get(verb="conflict")
    assert (conflict.before, conflict.after) == ({"model": "declared model"}, {"model": "SYS-421"})
    discover(product="SYS-999")
    assert AuditEntry.objects.filter(verb="conflict").count() == 2


def test_row_edited_by_a_person_is_no_longer_overwritten(operator: Actor) -> None:
    host = discover()
    services.update_host(actor=operator, host_id=host.pk, name="rack 7", model="SYS-421GE")
    discover()
    host.refresh_from_db()
    assert (host.name, host.model) == ("rack 7", "SYS-421GE")


def test_vanished_drive_is_missing_and_back_again_active() -> None:
    discover()
    discover(block_devices=[BARE])
    drive = Ssd.objects.get(serial="S1")
    assert drive.life_cycle == LifeCycle.MISSING
    discover(block_devices=[BARE])
    discover()
    drive.refresh_from_db()
    assert drive.life_cycle == LifeCycle.ACTIVE
    assert verbs(object_id=str(drive.pk)) == [("discover", "nvme0n1"), ("vanish", "nvme0n1"), ("reappear", "nvme0n1")]


def test_vanished_dpu_is_missing() -> None:
    discover()
    discover(network_devices=[])
    assert Dpu.objects.get().life_cycle == LifeCycle.MISSING
    discover()
    assert Dpu.objects.get().life_cycle == LifeCycle.ACTIVE


def test_only_what_was_seen_can_vanish_and_a_persons_word_on_life_stands(operator: Actor) -> None:
    host = discover()
    planned = services.create_ssd(actor=operator, name="ordered", host_id=host.pk)
    retired = Ssd.objects.get(serial="S1")
    services.update_ssd(actor=operator, ssd_id=retired.pk, life_cycle="retired")
    discover(block_devices=[])
    states = dict(Ssd.objects.values_list("pk", "life_cycle"))
    assert (states[planned.pk], states[retired.pk]) == (LifeCycle.ACTIVE, LifeCycle.RETIRED)
    assert Ssd.objects.get(name="vda").life_cycle == LifeCycle.MISSING


def test_drive_that_moves_to_another_host_keeps_its_row_and_history() -> None:
    discover()
    drive = Ssd.objects.get(serial="S1")
    other = discover(machine_id_hash="n" * 64, serial="HOST-2", hostname="gpu-02", block_devices=[DRIVE])
    drive.refresh_from_db()
    assert drive.host == other
    assert verbs(object_id=str(drive.pk))[-1] == ("move", "nvme0n1")
    discover(block_devices=[BARE])
    drive.refresh_from_db()
    assert (drive.host, drive.life_cycle) == (other, LifeCycle.ACTIVE)


def test_temperature_is_measured_anew_without_audit_or_version() -> None:
    discover()
    count, version = AuditEntry.objects.count(), Ssd.objects.get(serial="S1").version
    discover(block_devices=[DRIVE.model_copy(update={"temperature_c": 41.5}), BARE])
    drive = Ssd.objects.get(serial="S1")
    assert (drive.temperature_c, drive.version) == (41.5, version)
    assert AuditEntry.objects.count() == count


def test_ports_vanish_by_kind() -> None:
    veth = NetworkDeviceFact(name="veth1", kind="virtual", mac="02:00:00:00:00:01")
    discover(network_devices=[PORT, veth])
    discover(network_devices=[])
    assert list(NetworkInterface.objects.values_list("name", "state")) == [("enp1s0f0", "missing")]
    discover()
    assert NetworkInterface.objects.get().state == "up"


def test_same_port_twice_in_one_report_is_one_row() -> None:
    discover(network_devices=[PORT, PORT.model_copy(update={"mtu": 1500})])
    assert NetworkInterface.objects.get().mtu == 1500


def test_hostile_texts_and_numbers_are_tamed() -> None:
    host = discover(
        hostname="a\x00b\n" + "x" * 200,
        vendor="\u202eevil\x1b[31m",
        architecture="x" * 255,
        memory_bytes=10**30,
        block_devices=[BlockDeviceFact(name="\x00", capacity_bytes=10**30), BlockDeviceFact(name="d" * 255)],
        network_devices=[NetworkDeviceFact(name="n" * 255, kind="virtual", mac="m" * 255, mtu=10**12)],
    )
    host.refresh_from_db()
    assert "\x00" not in host.name
    assert "\x1b" not in host.manufacturer
    assert len(host.architecture) == 64
    assert host.memory_bytes is None
    assert Ssd.objects.get().name == "d" * 255
    assert len(NetworkInterface.objects.get().name) == 64


def test_host_without_a_name_or_any_identity_is_still_one_host() -> None:
    nothing = {"hostname": "\x00", "machine_id_hash": None, "serial": None}
    assert discover(**nothing).pk == discover(**nothing).pk


def test_report_with_too_many_devices_is_refused_whole() -> None:
    with pytest.raises(Invalid):
        discover(block_devices=[BlockDeviceFact(name=f"d{n}") for n in range(1025)])
    assert not Host.objects.exists()


def test_queries_of_ports_do_not_grow_with_their_number(django_assert_max_num_queries) -> None:
    ports = [NetworkDeviceFact(name=f"veth{n}", kind="virtual") for n in range(400)]
    discover(network_devices=ports, block_devices=[])
    with django_assert_max_num_queries(20):
        discover(network_devices=ports, block_devices=[])
