"""Filters of the API's lists."""

from django_filters import rest_framework as filters  # type: ignore[import-untyped]

from fabric.inventory.models import LifeCycle, Source


class SiteFilter(filters.FilterSet):  # type: ignore[misc]
    """Sites."""

    name = filters.CharFilter(lookup_expr="icontains", max_length=100)
    slug = filters.CharFilter(max_length=100)
    ordering = filters.OrderingFilter(fields=["name", "slug", "created_at", "updated_at", "pod_count"])


class PodFilter(filters.FilterSet):  # type: ignore[misc]
    """Pods."""

    name = filters.CharFilter(lookup_expr="icontains", max_length=100)
    site = filters.UUIDFilter(field_name="site_id")
    ordering = filters.OrderingFilter(fields=["name", "created_at", "updated_at", "host_count", "pool_count"])


class DeviceFilter(filters.FilterSet):  # type: ignore[misc]
    """What every device has."""

    name = filters.CharFilter(lookup_expr="icontains", max_length=255)
    manufacturer = filters.CharFilter(lookup_expr="icontains", max_length=255)
    model = filters.CharFilter(lookup_expr="icontains", max_length=255)
    serial = filters.CharFilter(lookup_expr="iexact", max_length=255)
    life_cycle = filters.ChoiceFilter(choices=LifeCycle.choices)
    source = filters.ChoiceFilter(choices=Source.choices)
    seen_before = filters.IsoDateTimeFilter(field_name="last_seen_at", lookup_expr="lt")


_DEVICE_ORDER = ["name", "model", "serial", "life_cycle", "last_seen_at", "created_at", "updated_at"]


class HostFilter(DeviceFilter):
    """Hosts."""

    pod = filters.UUIDFilter(field_name="pod_id")
    site = filters.UUIDFilter(field_name="pod__site_id")
    ordering = filters.OrderingFilter(fields=[*_DEVICE_ORDER, "memory_bytes", "cpu_threads", "ssd_count", "dpu_count"])


class DpuFilter(DeviceFilter):
    """DPUs."""

    host = filters.UUIDFilter(field_name="host_id")
    ordering = filters.OrderingFilter(fields=_DEVICE_ORDER)


class SsdFilter(DeviceFilter):
    """SSDs."""

    host = filters.UUIDFilter(field_name="host_id")
    dpu = filters.UUIDFilter(field_name="dpu_id")
    transport = filters.CharFilter(max_length=32)
    rotational = filters.BooleanFilter()
    ordering = filters.OrderingFilter(fields=[*_DEVICE_ORDER, "capacity_bytes", "temperature_c"])


class SwitchFilter(DeviceFilter):
    """Switches."""

    pod = filters.UUIDFilter(field_name="pod_id")
    ordering = filters.OrderingFilter(fields=_DEVICE_ORDER)


class NetworkInterfaceFilter(filters.FilterSet):  # type: ignore[misc]
    """Network interfaces."""

    host = filters.UUIDFilter(field_name="host_id")
    dpu = filters.UUIDFilter(field_name="dpu_id")
    name = filters.CharFilter(max_length=64)
    kind = filters.CharFilter(max_length=16)
    mac = filters.CharFilter(lookup_expr="iexact", max_length=17)
    state = filters.CharFilter(max_length=32)
    ordering = filters.OrderingFilter(fields=["name", "kind", "speed_mbps", "last_seen_at"])
