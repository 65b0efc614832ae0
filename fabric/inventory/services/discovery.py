"""What agents discover. Facts that a person declared are kept; what differs from them is recorded as a conflict."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from agent.protocol import HostInventory
from fabric.audit.selectors import audit_entries_for_object
from fabric.audit.services import record
from fabric.core.actor import Actor
from fabric.core.errors import Invalid, Problem
from fabric.inventory.domain import (
    MAX_DEVICES,
    DriveFacts,
    clean_text,
    dpu_key,
    dpus_in,
    drives_in,
    host_facts,
    interface_facts,
    merge_facts,
)
from fabric.inventory.models import Device, Dpu, Host, LifeCycle, NetworkInterface, Source, Ssd

D = TypeVar("D", bound=Device)
ATTEMPTS = 3
PORT_MISSING = "missing"
INTERFACE_COLUMNS = ("kind", "mac", "speed_mbps", "mtu", "state", "driver")


@dataclass(frozen=True, slots=True)
class _Sighting:
    """Who saw it, by what means, when."""

    actor: Actor
    detail: str
    now: datetime


def record_host_inventory(*, actor: Actor, inventory: HostInventory) -> Host:
    """Store what an agent (the actor) found on its host; return the host.

    The host is known by its machine id, else by its serial number, else by its name where nothing contradicts.
    Drives are known by serial number and model, without a serial number by their name on this host. A device that
    is gone becomes `missing`, one that is back `active`; nothing is deleted but virtual interfaces, which come and
    go with containers.

    Raises:
        Invalid: more devices than any host has.
    """
    for name, devices in (("block_devices", inventory.block_devices), ("network_devices", inventory.network_devices)):
        if len(devices) > MAX_DEVICES:
            problem = Problem(name, f"it lists {len(devices)} devices", f"report at most {MAX_DEVICES}")
            raise Invalid("The inventory is too large.", [problem])
    seen = _Sighting(actor, f"agent {actor.name} via {clean_text(inventory.source, 100)}"[:255], timezone.now())
    for attempt in range(ATTEMPTS):
        try:
            with transaction.atomic():
                return _record(seen, inventory)
        except IntegrityError:  # another agent reported the same new device at the same moment: look again
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _record(seen: _Sighting, inventory: HostInventory) -> Host:
    host = _upsert_host(seen, inventory)
    dpus = {dpu.key: _upsert_dpu(seen, host, dpu.columns) for dpu in dpus_in(inventory.network_devices)}
    _mark_missing(seen, Dpu, host, {dpu.pk for dpu in dpus.values()})
    drives = {_upsert_drive(seen, host, drive).pk for drive in drives_in(inventory.block_devices)}
    _mark_missing(seen, Ssd, host, drives)
    _record_interfaces(seen, host, inventory, dpus)
    return host


def _upsert_host(seen: _Sighting, inventory: HostInventory) -> Host:
    facts = host_facts(inventory)
    name = clean_text(inventory.hostname, 255) or "unnamed host"
    host = _known_host(facts["machine_id_hash"], facts["serial"], name)
    if host is None:
        return _create(seen, Host, {"name": name, **facts})
    return _update(seen, host, facts)


def _known_host(machine_id_hash: str | None, serial: str, name: str) -> Host | None:
    rows = Host.objects.select_for_update(of=("self",)).order_by("created_at", "pk")
    host = rows.filter(machine_id_hash=machine_id_hash).first() if machine_id_hash else None
    if host is None and serial:
        host = rows.filter(serial=serial).first()
    if host is None:
        same_machine = Q(machine_id_hash=None) if machine_id_hash else Q()
        same_serial = Q(serial="") if serial else Q()
        host = rows.filter(same_machine, same_serial, name__iexact=name).first()
    return host


def _upsert_dpu(seen: _Sighting, host: Host, columns: Mapping[str, Any]) -> Dpu:
    rows = Dpu.objects.select_for_update(of=("self",)).filter(host=host).order_by("created_at", "pk")
    dpu = rows.filter(base_mac=columns["base_mac"]).first() if columns["base_mac"] else None
    dpu = dpu or rows.filter(base_mac="", model__iexact=columns["model"]).first()
    if dpu is None:
        return _create(seen, Dpu, {"host": host, **columns})
    return _update(seen, dpu, {name: value for name, value in columns.items() if name != "name"})


def _upsert_drive(seen: _Sighting, host: Host, drive: DriveFacts) -> Ssd:
    facts = drive.columns
    rows = Ssd.objects.select_for_update(of=("self",))
    if facts["serial"]:
        ssd = rows.filter(serial=facts["serial"], model=facts["model"]).first()
    else:
        ssd = rows.filter(serial="", host=host, name=facts["name"]).first()
    if ssd is None:
        return _create(seen, Ssd, {"host": host, "temperature_c": drive.temperature_c, **facts})
    if ssd.host_id != host.pk:
        before, after = {"host": str(ssd.host) if ssd.host else None}, {"host": host.name}
        ssd.host, ssd.dpu = host, None
        ssd.save(update_fields=["host", "dpu"])
        record(actor=seen.actor, verb="move", obj=ssd, before=before, after=after, reason=seen.detail)
    if drive.temperature_c is not None:
        ssd.temperature_c = drive.temperature_c
        ssd.save(update_fields=["temperature_c"])
    return _update(seen, ssd, facts)


def _create(seen: _Sighting, model: type[D], facts: Mapping[str, Any]) -> D:
    row = model._default_manager.create(
        **facts,
        source=Source.DISCOVERED.value,
        source_detail=seen.detail,
        first_seen_at=seen.now,
        last_seen_at=seen.now,
    )
    after = {name: value for name, value in facts.items() if value not in (None, "") and name != "host"}
    record(actor=seen.actor, verb="discover", obj=row, before={}, after=after, reason=seen.detail)
    return row


def _update(seen: _Sighting, row: D, found: Mapping[str, Any]) -> D:
    declared = row.source == Source.DECLARED
    merge = merge_facts({name: getattr(row, name) for name in found}, found, declared=declared)
    changes = dict(merge.changes)
    if row.life_cycle == LifeCycle.MISSING:
        changes["life_cycle"] = LifeCycle.ACTIVE.value
    before = {name: getattr(row, name) for name in changes}
    for name, value in changes.items():
        setattr(row, name, value)
    row.last_seen_at, row.first_seen_at = seen.now, row.first_seen_at or seen.now
    if not declared:
        row.source_detail = seen.detail
    if changes:
        row.version += 1
    row.save(update_fields=[*changes, "version", "last_seen_at", "first_seen_at", "source_detail", "updated_at"])
    if changes:
        verb = "reappear" if "life_cycle" in changes else "discover"
        record(actor=seen.actor, verb=verb, obj=row, before=before, after=changes, reason=seen.detail)
    if merge.conflicts:
        _record_conflict(seen, row, merge.conflicts)
    return row


def _record_conflict(seen: _Sighting, row: Device, conflicts: Mapping[str, tuple[Any, Any]]) -> None:
    """Note what was found different from what was declared, once: agents report again and again."""
    before = {name: declared for name, (declared, _) in conflicts.items()}
    after = {name: found for name, (_, found) in conflicts.items()}
    earlier = audit_entries_for_object(seen.actor, row._meta.label_lower, row.pk)
    last = earlier.filter(verb="conflict").first()
    if last is None or (last.before, last.after) != (before, after):
        record(actor=seen.actor, verb="conflict", obj=row, before=before, after=after, reason=seen.detail)


def _mark_missing(seen: _Sighting, model: type[Dpu] | type[Ssd], host: Host, present: set[Any]) -> None:
    """Mark devices of the host that were seen before and are gone. What was only ever declared stays as it is."""
    rows: Any = model._default_manager.select_for_update(of=("self",)).filter(
        host=host, first_seen_at__isnull=False, life_cycle=LifeCycle.ACTIVE
    )
    for row in rows.exclude(pk__in=present).order_by("pk"):
        row.life_cycle = LifeCycle.MISSING.value
        row.version += 1
        row.save(update_fields=["life_cycle", "version", "updated_at"])
        before, after = {"life_cycle": LifeCycle.ACTIVE.value}, {"life_cycle": LifeCycle.MISSING.value}
        record(actor=seen.actor, verb="vanish", obj=row, before=before, after=after, reason=seen.detail)


def _record_interfaces(
    seen: _Sighting, host: Host, inventory: HostInventory, dpus: Mapping[tuple[str, str], Dpu]
) -> None:
    found: dict[str, NetworkInterface] = {}
    for device in inventory.network_devices:
        name, key = clean_text(device.name, 64), dpu_key(device)
        if name:
            found[name] = NetworkInterface(
                host=host,
                name=name,
                dpu=dpus.get(key) if key else None,
                source_detail=seen.detail,
                last_seen_at=seen.now,
                updated_at=seen.now,
                **interface_facts(device),
            )
    NetworkInterface.objects.bulk_create(
        found.values(),
        update_conflicts=True,
        unique_fields=["host", "name"],
        update_fields=["dpu", "source_detail", "last_seen_at", "updated_at", *INTERFACE_COLUMNS],
    )
    gone = NetworkInterface.objects.filter(host=host).exclude(name__in=found)
    gone.filter(kind="physical").exclude(state=PORT_MISSING).update(state=PORT_MISSING, updated_at=seen.now)
    gone.exclude(kind="physical").delete()
