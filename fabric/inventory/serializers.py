"""What of the inventory is shown and typed in."""

from typing import Any

from rest_framework import serializers

from fabric.core.api.serializers import FlagField, IdField, InputSerializer, NumberField, TextField, WholeNumberField
from fabric.inventory.domain import MAX_BIGINT, MAX_INT
from fabric.inventory.models import Dpu, Host, LifeCycle, NetworkInterface, Pod, Site, Ssd, Switch

_ROW = ["version", "created_at", "updated_at"]
_DEVICE = [
    "id",
    "name",
    "manufacturer",
    "model",
    "serial",
    "firmware",
    "life_cycle",
    "notes",
    "source",
    "source_detail",
    "first_seen_at",
    "last_seen_at",
]


def _optional_text(max_length: int = 255) -> TextField:
    return TextField(max_length=max_length, required=False, allow_blank=True)


def _optional_number(max_value: int = MAX_INT) -> WholeNumberField:
    return WholeNumberField(min_value=1, max_value=max_value, required=False, allow_null=True)


def _reference(column: str, *, required: bool = False) -> IdField:
    return IdField(source=column, required=required, allow_null=not required)


def _name_of(relation: str) -> serializers.CharField:
    return serializers.CharField(source=f"{relation}.name", default=None, read_only=True, allow_null=True)


class SiteSerializer(serializers.ModelSerializer[Site]):
    """A site."""

    pod_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = Site
        fields = ["id", "name", "slug", "description", "pod_count", *_ROW]
        read_only_fields = fields


class SiteInput(InputSerializer):
    """A site as it is declared."""

    name = TextField(max_length=100)
    slug = TextField(max_length=100)
    description = _optional_text(2000)


class PodSerializer(serializers.ModelSerializer[Pod]):
    """A pod."""

    site_name = _name_of("site")
    host_count = serializers.IntegerField(read_only=True)
    pool_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = Pod
        fields = ["id", "site", "site_name", "name", "description", "host_count", "pool_count", *_ROW]
        read_only_fields = fields


class PodInput(InputSerializer):
    """A pod as it is declared."""

    site = _reference("site_id", required=True)
    name = TextField(max_length=100)
    description = _optional_text(2000)


class HostSerializer(serializers.ModelSerializer[Host]):
    """A host."""

    pod_name = _name_of("pod")
    ssd_count = serializers.IntegerField(read_only=True)
    dpu_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = Host
        fields = [
            *_DEVICE,
            "pod",
            "pod_name",
            "os",
            "kernel",
            "architecture",
            "cpu_model",
            "cpu_threads",
            "memory_bytes",
            "rapl_readable",
            "ssd_count",
            "dpu_count",
            *_ROW,
        ]
        read_only_fields = fields


class DpuSerializer(serializers.ModelSerializer[Dpu]):
    """A DPU."""

    host_name = _name_of("host")
    ssd_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = Dpu
        fields = [
            *_DEVICE,
            "host",
            "host_name",
            "mode",
            "bmc_address",
            "base_mac",
            "port_count",
            "ssd_count",
            *_ROW,
        ]
        read_only_fields = fields


class SsdSerializer(serializers.ModelSerializer[Ssd]):
    """An SSD."""

    host_name = _name_of("host")
    dpu_name = _name_of("dpu")

    class Meta:
        model = Ssd
        fields = [
            *_DEVICE,
            "host",
            "host_name",
            "dpu",
            "dpu_name",
            "transport",
            "nqn",
            "capacity_bytes",
            "logical_block_bytes",
            "rotational",
            "temperature_c",
            "endurance_dwpd",
            *_ROW,
        ]
        read_only_fields = fields


class SwitchSerializer(serializers.ModelSerializer[Switch]):
    """A switch."""

    pod_name = _name_of("pod")

    class Meta:
        model = Switch
        fields = [*_DEVICE, "pod", "pod_name", "management_address", "os", "port_count", *_ROW]
        read_only_fields = fields


class NetworkInterfaceSerializer(serializers.ModelSerializer[NetworkInterface]):
    """A network interface as discovered."""

    host_name = _name_of("host")

    class Meta:
        model = NetworkInterface
        fields = [
            "id",
            "host",
            "host_name",
            "dpu",
            "name",
            "kind",
            "mac",
            "speed_mbps",
            "mtu",
            "state",
            "driver",
            "source_detail",
            "last_seen_at",
        ]
        read_only_fields = fields


class DeviceInput(InputSerializer):
    """What is declared of any device."""

    name = TextField(max_length=255)
    manufacturer = _optional_text()
    model = _optional_text()
    serial = _optional_text()
    firmware = _optional_text()
    life_cycle = serializers.ChoiceField(choices=LifeCycle.choices, required=False)
    notes = _optional_text(2000)


class HostInput(DeviceInput):
    """A host as it is declared."""

    pod = _reference("pod_id")
    os = _optional_text()
    architecture = _optional_text(64)
    cpu_model = _optional_text()
    cpu_threads = _optional_number()
    memory_bytes = _optional_number(MAX_BIGINT)


class DpuInput(DeviceInput):
    """A DPU as it is declared."""

    host = _reference("host_id")
    mode = _optional_text(32)
    bmc_address = _optional_text()
    base_mac = _optional_text(17)
    port_count = _optional_number(32767)


class SsdInput(DeviceInput):
    """An SSD as it is declared."""

    host = _reference("host_id")
    dpu = _reference("dpu_id")
    transport = _optional_text(32)
    nqn = _optional_text()
    capacity_bytes = _optional_number(MAX_BIGINT)
    logical_block_bytes = _optional_number()
    rotational = FlagField(required=False, allow_null=True)
    endurance_dwpd: Any = NumberField(min_value=0, max_value=1000, required=False, allow_null=True)


class SwitchInput(DeviceInput):
    """A switch as it is declared."""

    pod = _reference("pod_id")
    management_address = _optional_text()
    os = _optional_text()
    port_count = _optional_number(32767)
