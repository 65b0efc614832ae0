"""Site admin: the inventory."""

from django.contrib import admin

from fabric.core.admin import ReadOnlyAdmin
from fabric.inventory.models import Dpu, Host, NetworkInterface, Pod, Site, Ssd, Switch


@admin.register(Site)
class SiteAdmin(ReadOnlyAdmin):
    """Sites."""

    list_display = ["name", "slug"]
    search_fields = ["name", "slug"]


@admin.register(Pod)
class PodAdmin(ReadOnlyAdmin):
    """Pods."""

    list_display = ["name", "site"]
    list_select_related = ["site"]
    search_fields = ["name", "site__name"]


@admin.register(Host)
class HostAdmin(ReadOnlyAdmin):
    """Hosts."""

    list_display = ["name", "pod", "model", "life_cycle", "source", "last_seen_at"]
    list_select_related = ["pod__site"]
    list_filter = ["life_cycle", "source"]
    search_fields = ["name", "serial", "model"]


@admin.register(Dpu)
class DpuAdmin(ReadOnlyAdmin):
    """DPUs."""

    list_display = ["name", "host", "model", "life_cycle", "source", "last_seen_at"]
    list_select_related = ["host"]
    list_filter = ["life_cycle", "source"]
    search_fields = ["name", "serial", "model"]


@admin.register(Ssd)
class SsdAdmin(ReadOnlyAdmin):
    """SSDs."""

    list_display = ["name", "host", "model", "serial", "life_cycle", "source", "last_seen_at"]
    list_select_related = ["host"]
    list_filter = ["life_cycle", "source", "transport"]
    search_fields = ["name", "serial", "model"]


@admin.register(Switch)
class SwitchAdmin(ReadOnlyAdmin):
    """Switches."""

    list_display = ["name", "pod", "model", "life_cycle", "source"]
    list_select_related = ["pod__site"]
    list_filter = ["life_cycle", "source"]
    search_fields = ["name", "serial", "model"]


@admin.register(NetworkInterface)
class NetworkInterfaceAdmin(ReadOnlyAdmin):
    """Network interfaces."""

    list_display = ["name", "host", "kind", "mac", "speed_mbps", "state", "last_seen_at"]
    list_select_related = ["host"]
    list_filter = ["kind"]
    search_fields = ["name", "mac", "host__name"]
