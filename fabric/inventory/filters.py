"""Filters of inventory pages."""

from fabric.core.web.filters import ChoiceFilter, FilterSet, ModelChoiceFilter
from fabric.inventory.models import Dpu, Host, LifeCycle, Pod, Site, Source, Ssd, Switch

_DEVICE = ("name", "serial", "model", "manufacturer")
_HINT = "Name, serial number, model…"


class SiteFilter(FilterSet):
    """Sites."""

    search_fields = ("name", "slug", "description")

    class Meta:
        model = Site
        fields: list[str] = []


class PodFilter(FilterSet):
    """Pods."""

    search_fields = ("name", "site__name", "description")
    site = ModelChoiceFilter(queryset=Site.objects.order_by("name"), empty_label="any")

    class Meta:
        model = Pod
        fields: list[str] = []


class DeviceFilter(FilterSet):
    """What every device is filtered by."""

    search_hint = _HINT
    life_cycle = ChoiceFilter(choices=LifeCycle.choices, label="Life cycle", empty_label="any")
    source = ChoiceFilter(choices=Source.choices, empty_label="any")


class HostFilter(DeviceFilter):
    """Hosts."""

    search_fields = (*_DEVICE, "cpu_model", "pod__name")
    pod = ModelChoiceFilter(queryset=Pod.objects.select_related("site"), empty_label="any")

    class Meta:
        model = Host
        fields: list[str] = []


class DpuFilter(DeviceFilter):
    """DPUs."""

    search_fields = (*_DEVICE, "base_mac", "host__name")
    host = ModelChoiceFilter(queryset=Host.objects.order_by("name"), empty_label="any")

    class Meta:
        model = Dpu
        fields: list[str] = []


class SsdFilter(DeviceFilter):
    """SSDs."""

    search_fields = (*_DEVICE, "nqn", "host__name")
    host = ModelChoiceFilter(queryset=Host.objects.order_by("name"), empty_label="any")

    class Meta:
        model = Ssd
        fields: list[str] = []


class SwitchFilter(DeviceFilter):
    """Switches."""

    search_fields = (*_DEVICE, "management_address", "pod__name")
    pod = ModelChoiceFilter(queryset=Pod.objects.select_related("site"), empty_label="any")

    class Meta:
        model = Switch
        fields: list[str] = []
