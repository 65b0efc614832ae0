"""REST edges of the inventory."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view

from fabric.core.api.resources import resource_schema
from fabric.core.api.views import ListAndRetrieve, ResourceViewSet
from fabric.inventory import api_filters as filters
from fabric.inventory import selectors, services
from fabric.inventory import serializers as shapes
from fabric.inventory.models import Dpu, Host, NetworkInterface, Pod, Site, Ssd, Switch


@resource_schema("site", shapes.SiteSerializer, shapes.SiteInput, shapes.SiteInput)
class SiteViewSet(ResourceViewSet):
    """Places."""

    serializer_class = shapes.SiteSerializer
    create_serializer = update_serializer = shapes.SiteInput
    filterset_class = filters.SiteFilter

    def rows(self) -> QuerySet[Site]:
        """Return what the actor may see."""
        return selectors.sites_for_list(self.actor)

    def create_one(self, data: dict[str, Any]) -> Site:
        """Declare one."""
        return services.create_site(actor=self.actor, **data)

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Site:
        """Change one."""
        return services.update_site(actor=self.actor, site_id=pk, expected_version=version, **data)

    def delete_one(self, pk: UUID, version: int) -> None:
        """Remove one."""
        services.delete_site(actor=self.actor, site_id=pk, expected_version=version)


@resource_schema("pod", shapes.PodSerializer, shapes.PodInput, shapes.PodInput)
class PodViewSet(ResourceViewSet):
    """Groups of racks that share flash."""

    serializer_class = shapes.PodSerializer
    create_serializer = update_serializer = shapes.PodInput
    filterset_class = filters.PodFilter

    def rows(self) -> QuerySet[Pod]:
        """Return what the actor may see."""
        return selectors.pods_for_list(self.actor)

    def create_one(self, data: dict[str, Any]) -> Pod:
        """Declare one."""
        return services.create_pod(actor=self.actor, **data)

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Pod:
        """Change one."""
        return services.update_pod(actor=self.actor, pod_id=pk, expected_version=version, **data)

    def delete_one(self, pk: UUID, version: int) -> None:
        """Remove one."""
        services.delete_pod(actor=self.actor, pod_id=pk, expected_version=version)


@resource_schema("host", shapes.HostSerializer, shapes.HostInput, shapes.HostInput)
class HostViewSet(ResourceViewSet):
    """Servers."""

    serializer_class = shapes.HostSerializer
    create_serializer = update_serializer = shapes.HostInput
    filterset_class = filters.HostFilter

    def rows(self) -> QuerySet[Host]:
        """Return what the actor may see."""
        return selectors.hosts_for_list(self.actor)

    def create_one(self, data: dict[str, Any]) -> Host:
        """Declare one."""
        return services.create_host(actor=self.actor, **data)

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Host:
        """Change one."""
        return services.update_host(actor=self.actor, host_id=pk, expected_version=version, **data)

    def delete_one(self, pk: UUID, version: int) -> None:
        """Remove one."""
        services.delete_host(actor=self.actor, host_id=pk, expected_version=version)


@resource_schema("DPU", shapes.DpuSerializer, shapes.DpuInput, shapes.DpuInput)
class DpuViewSet(ResourceViewSet):
    """Data processing units."""

    serializer_class = shapes.DpuSerializer
    create_serializer = update_serializer = shapes.DpuInput
    filterset_class = filters.DpuFilter

    def rows(self) -> QuerySet[Dpu]:
        """Return what the actor may see."""
        return selectors.dpus_for_list(self.actor)

    def create_one(self, data: dict[str, Any]) -> Dpu:
        """Declare one."""
        return services.create_dpu(actor=self.actor, **data)

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Dpu:
        """Change one."""
        return services.update_dpu(actor=self.actor, dpu_id=pk, expected_version=version, **data)

    def delete_one(self, pk: UUID, version: int) -> None:
        """Remove one."""
        services.delete_dpu(actor=self.actor, dpu_id=pk, expected_version=version)


@resource_schema("SSD", shapes.SsdSerializer, shapes.SsdInput, shapes.SsdInput)
class SsdViewSet(ResourceViewSet):
    """Drives that can hold KV blocks."""

    serializer_class = shapes.SsdSerializer
    create_serializer = update_serializer = shapes.SsdInput
    filterset_class = filters.SsdFilter

    def rows(self) -> QuerySet[Ssd]:
        """Return what the actor may see."""
        return selectors.ssds_for_list(self.actor)

    def create_one(self, data: dict[str, Any]) -> Ssd:
        """Declare one."""
        return services.create_ssd(actor=self.actor, **data)

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Ssd:
        """Change one."""
        return services.update_ssd(actor=self.actor, ssd_id=pk, expected_version=version, **data)

    def delete_one(self, pk: UUID, version: int) -> None:
        """Remove one."""
        services.delete_ssd(actor=self.actor, ssd_id=pk, expected_version=version)


@resource_schema("switch", shapes.SwitchSerializer, shapes.SwitchInput, shapes.SwitchInput)
class SwitchViewSet(ResourceViewSet):
    """Ethernet switches."""

    serializer_class = shapes.SwitchSerializer
    create_serializer = update_serializer = shapes.SwitchInput
    filterset_class = filters.SwitchFilter

    def rows(self) -> QuerySet[Switch]:
        """Return what the actor may see."""
        return selectors.switches_for_list(self.actor)

    def create_one(self, data: dict[str, Any]) -> Switch:
        """Declare one."""
        return services.create_switch(actor=self.actor, **data)

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Switch:
        """Change one."""
        return services.update_switch(actor=self.actor, switch_id=pk, expected_version=version, **data)

    def delete_one(self, pk: UUID, version: int) -> None:
        """Remove one."""
        services.delete_switch(actor=self.actor, switch_id=pk, expected_version=version)


@extend_schema_view(
    list=extend_schema(summary="List network interfaces"),
    retrieve=extend_schema(summary="Read one network interface"),
)
class NetworkInterfaceViewSet(ListAndRetrieve):
    """Network interfaces, as discovered."""

    serializer_class = shapes.NetworkInterfaceSerializer
    filterset_class = filters.NetworkInterfaceFilter

    def rows(self) -> QuerySet[NetworkInterface]:
        """Return what the actor may see."""
        return selectors.interfaces_for_list(self.actor)
