"""Hosts, DPUs, SSDs and switches as operators declare them."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack
from uuid import UUID

from fabric.core.actor import Actor
from fabric.inventory.models import Dpu, Host, Ssd, Switch
from fabric.inventory.services.common import Kind, create, delete, update


class DeviceFacts(TypedDict, total=False):
    """What an operator declares of any device. `life_cycle` is a value of `LifeCycle`."""

    name: str
    manufacturer: str
    model: str
    serial: str
    firmware: str
    life_cycle: str
    notes: str


class HostFacts(DeviceFacts, total=False):
    """What an operator declares of a host."""

    pod_id: UUID | None
    os: str
    architecture: str
    cpu_model: str
    cpu_threads: int | None
    memory_bytes: int | None


class DpuFacts(DeviceFacts, total=False):
    """What an operator declares of a DPU."""

    host_id: UUID | None
    mode: str
    bmc_address: str
    base_mac: str
    port_count: int | None


class SsdFacts(DeviceFacts, total=False):
    """What an operator declares of an SSD. `endurance_dwpd`: drive writes per day."""

    host_id: UUID | None
    dpu_id: UUID | None
    transport: str
    nqn: str
    capacity_bytes: int | None
    logical_block_bytes: int | None
    rotational: bool | None
    endurance_dwpd: float | None


class SwitchFacts(DeviceFacts, total=False):
    """What an operator declares of a switch."""

    pod_id: UUID | None
    management_address: str
    os: str
    port_count: int | None


def _serial_once(row: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [("serial",)] if row.get("serial") else []


def _drive_once(row: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if row.get("serial"):
        return [("serial", "model")]
    return [("serial", "host_id", "name")] if row.get("host_id") else []


_HOST = Kind(Host, "host", tuple(HostFacts.__annotations__), lambda row: [], ("agents",))
_DPU = Kind(Dpu, "DPU", tuple(DpuFacts.__annotations__), _serial_once)
_SSD = Kind(Ssd, "SSD", tuple(SsdFacts.__annotations__), _drive_once)
_SWITCH = Kind(Switch, "switch", tuple(SwitchFacts.__annotations__), _serial_once)


def create_host(*, actor: Actor, **facts: Unpack[HostFacts]) -> Host:
    """Declare a host. Raises `NotAllowed`, `Invalid`."""
    return create(_HOST, actor, facts)


def update_host(
    *, actor: Actor, host_id: UUID, expected_version: int | None = None, **facts: Unpack[HostFacts]
) -> Host:
    """Change what is given of a host. Raises `NotAllowed`, `NotFound`, `StaleVersion`, `Invalid`."""
    return update(_HOST, actor, host_id, expected_version, facts)


def delete_host(*, actor: Actor, host_id: UUID, expected_version: int | None = None, reason: str = "") -> None:
    """Remove a host with its devices. Raises `NotAllowed`, `NotFound`, `StaleVersion`, `Blocked` (an agent runs on
    it).
    """
    delete(_HOST, actor, host_id, expected_version, reason)


def create_dpu(*, actor: Actor, **facts: Unpack[DpuFacts]) -> Dpu:
    """Declare a DPU. Raises `NotAllowed`, `Invalid`, `Conflict` (serial known)."""
    return create(_DPU, actor, facts)


def update_dpu(*, actor: Actor, dpu_id: UUID, expected_version: int | None = None, **facts: Unpack[DpuFacts]) -> Dpu:
    """Change what is given of a DPU. Raises also `NotFound`, `StaleVersion`."""
    return update(_DPU, actor, dpu_id, expected_version, facts)


def delete_dpu(*, actor: Actor, dpu_id: UUID, expected_version: int | None = None, reason: str = "") -> None:
    """Remove a DPU; its SSDs and ports stay. Raises `NotAllowed`, `NotFound`, `StaleVersion`."""
    delete(_DPU, actor, dpu_id, expected_version, reason)


def create_ssd(*, actor: Actor, **facts: Unpack[SsdFacts]) -> Ssd:
    """Declare an SSD. Raises `NotAllowed`, `Invalid`, `Conflict` (serial and model known, or name taken on that
    host).
    """
    return create(_SSD, actor, facts)


def update_ssd(*, actor: Actor, ssd_id: UUID, expected_version: int | None = None, **facts: Unpack[SsdFacts]) -> Ssd:
    """Change what is given of an SSD. Raises also `NotFound`, `StaleVersion`."""
    return update(_SSD, actor, ssd_id, expected_version, facts)


def delete_ssd(*, actor: Actor, ssd_id: UUID, expected_version: int | None = None, reason: str = "") -> None:
    """Remove an SSD. Raises `NotAllowed`, `NotFound`, `StaleVersion`."""
    delete(_SSD, actor, ssd_id, expected_version, reason)


def create_switch(*, actor: Actor, **facts: Unpack[SwitchFacts]) -> Switch:
    """Declare a switch. Raises `NotAllowed`, `Invalid`, `Conflict` (serial known)."""
    return create(_SWITCH, actor, facts)


def update_switch(
    *, actor: Actor, switch_id: UUID, expected_version: int | None = None, **facts: Unpack[SwitchFacts]
) -> Switch:
    """Change what is given of a switch. Raises also `NotFound`, `StaleVersion`."""
    return update(_SWITCH, actor, switch_id, expected_version, facts)


def delete_switch(*, actor: Actor, switch_id: UUID, expected_version: int | None = None, reason: str = "") -> None:
    """Remove a switch. Raises `NotAllowed`, `NotFound`, `StaleVersion`."""
    delete(_SWITCH, actor, switch_id, expected_version, reason)
