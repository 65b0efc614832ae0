"""Tables of the inventory."""

from typing import Any

from django.utils.safestring import SafeString

from fabric.core.web.tables import (
    BytesColumn,
    Column,
    LinkColumn,
    MonoColumn,
    NumberColumn,
    StateColumn,
    Table,
    TimeColumn,
)
from fabric.core.web.text import badge
from fabric.inventory.models import Dpu, Host, NetworkInterface, Pod, Site, Source, Ssd, Switch


class SiteTable(Table):
    """Sites."""

    noun = "sites"
    name = LinkColumn()
    pod_count = NumberColumn(verbose_name="Pods")

    class Meta(Table.Meta):
        model = Site
        fields = ("name", "slug", "pod_count", "description")
        order_by = "name"


class PodTable(Table):
    """Pods."""

    noun = "pods"
    name = LinkColumn()
    site = Column(linkify=True)
    host_count = NumberColumn(verbose_name="Hosts")
    pool_count = NumberColumn(verbose_name="Pools")

    class Meta(Table.Meta):
        model = Pod
        fields = ("name", "site", "host_count", "pool_count", "description")


class SourceColumn(Column):  # type: ignore[misc]
    """Who says so: discovery or a person."""

    def render(self, value: Any, record: Any) -> SafeString:
        """Return the badge; what discovery found is marked apart from what people declared."""
        discovered = record.source == Source.DISCOVERED
        return badge("discovered" if discovered else "declared", tone="info" if discovered else "idle")

    def value(self, record: Any) -> str:
        """Return the word."""
        return str(record.source)


class DeviceTable(Table):
    """What every device's table ends with."""

    name = LinkColumn()
    serial = MonoColumn(verbose_name="Serial number")
    life_cycle = StateColumn(verbose_name="Life cycle")
    source = SourceColumn()
    last_seen_at = TimeColumn(verbose_name="Last seen", default="never")


class HostTable(DeviceTable):
    """Hosts."""

    noun = "hosts"
    pod = Column(linkify=True, order_by=("pod__site__name", "pod__name"))
    memory_bytes = BytesColumn(verbose_name="Memory")
    cpu_threads = NumberColumn(verbose_name="CPU threads")
    ssd_count = NumberColumn(verbose_name="SSDs")
    dpu_count = NumberColumn(verbose_name="DPUs")

    class Meta(Table.Meta):
        model = Host
        fields = (
            "name",
            "pod",
            "model",
            "cpu_threads",
            "memory_bytes",
            "ssd_count",
            "dpu_count",
            "life_cycle",
            "source",
            "last_seen_at",
        )
        exclude = ("serial",)
        order_by = "name"


class DpuTable(DeviceTable):
    """DPUs."""

    noun = "DPUs"
    host = Column(linkify=True, order_by="host__name")
    ssd_count = NumberColumn(verbose_name="SSDs")

    class Meta(Table.Meta):
        model = Dpu
        fields = ("name", "host", "model", "serial", "mode", "ssd_count", "life_cycle", "source", "last_seen_at")
        order_by = "name"


class SsdTable(DeviceTable):
    """SSDs."""

    noun = "SSDs"
    host = Column(linkify=True, order_by="host__name")
    capacity_bytes = BytesColumn(verbose_name="Capacity")

    class Meta(Table.Meta):
        model = Ssd
        fields = (
            "name",
            "host",
            "model",
            "serial",
            "transport",
            "capacity_bytes",
            "life_cycle",
            "source",
            "last_seen_at",
        )


class SwitchTable(DeviceTable):
    """Switches."""

    noun = "switches"
    pod = Column(linkify=True, order_by=("pod__site__name", "pod__name"))
    port_count = NumberColumn(verbose_name="Ports")

    class Meta(Table.Meta):
        model = Switch
        fields = (
            "name",
            "pod",
            "model",
            "serial",
            "port_count",
            "management_address",
            "life_cycle",
            "source",
            "last_seen_at",
        )
        order_by = "name"


class InterfaceTable(Table):
    """Network interfaces of a host."""

    noun = "interfaces"
    mac = MonoColumn(verbose_name="MAC")
    speed_mbps = NumberColumn(verbose_name="Mbit/s")
    mtu = NumberColumn(verbose_name="MTU")
    last_seen_at = TimeColumn(verbose_name="Last seen", default="never")

    class Meta(Table.Meta):
        model = NetworkInterface
        fields = ("name", "kind", "mac", "speed_mbps", "mtu", "state", "driver", "last_seen_at")
        order_by = "name"
