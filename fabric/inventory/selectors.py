"""Reads of the inventory; any signed-in role may read it. Each list costs the same number of queries however long
it is.
"""

from uuid import UUID

from django.db.models import Count, QuerySet

from fabric.core.actor import Actor
from fabric.core.errors import NotFound
from fabric.inventory.models import Dpu, Host, NetworkInterface, Pod, Site, Ssd, Switch


def sites_for_list(actor: Actor) -> QuerySet[Site]:
    """Return every site with `pod_count`, by name."""
    return Site.objects.annotate(pod_count=Count("pods")).order_by("name")


def pods_for_list(actor: Actor) -> QuerySet[Pod]:
    """Return every pod with its site and `host_count`, `pool_count`, by site and name."""
    return (
        Pod.objects.select_related("site")
        .annotate(host_count=Count("hosts", distinct=True), pool_count=Count("pools", distinct=True))
        .order_by("site__name", "name")
    )


def hosts_for_list(actor: Actor) -> QuerySet[Host]:
    """Return every host with its pod and `ssd_count`, `dpu_count`, by name."""
    return (
        Host.objects.select_related("pod__site")
        .annotate(ssd_count=Count("ssds", distinct=True), dpu_count=Count("dpus", distinct=True))
        .order_by("name", "pk")
    )


def host_detail(actor: Actor, host_id: UUID) -> Host:
    """Return one host as `hosts_for_list` gives it. Raises `NotFound`."""
    host = hosts_for_list(actor).filter(pk=host_id).first()
    if host is None:
        raise NotFound("There is no such host.")
    return host


def dpus_for_list(actor: Actor) -> QuerySet[Dpu]:
    """Return every DPU with its host and `ssd_count`, by name."""
    return Dpu.objects.select_related("host").annotate(ssd_count=Count("ssds")).order_by("name", "pk")


def ssds_for_list(actor: Actor) -> QuerySet[Ssd]:
    """Return every SSD with its host and DPU, by host and name."""
    return Ssd.objects.select_related("host", "dpu").order_by("host__name", "name", "pk")


def switches_for_list(actor: Actor) -> QuerySet[Switch]:
    """Return every switch with its pod, by name."""
    return Switch.objects.select_related("pod__site").order_by("name", "pk")


def interfaces_for_list(actor: Actor) -> QuerySet[NetworkInterface]:
    """Return every network interface with its host and DPU, by host and name."""
    return NetworkInterface.objects.select_related("host", "dpu").order_by("host__name", "name")
