"""REST edge of pools."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from fabric.core.api.resources import resource_schema
from fabric.core.api.views import ResourceViewSet
from fabric.pools import selectors, services
from fabric.pools.api_filters import PoolFilter
from fabric.pools.models import Pool
from fabric.pools.serializers import PoolInput, PoolSerializer, PoolSummarySerializer


@resource_schema("pool", PoolSerializer, PoolInput, PoolInput)
class PoolViewSet(ResourceViewSet):
    """Capacity that is managed as one."""

    serializer_class = PoolSerializer
    create_serializer = update_serializer = PoolInput
    filterset_class = PoolFilter

    def rows(self) -> QuerySet[Pool]:
        """Return the pools that the actor may see."""
        return selectors.pools_for_list(self.actor)

    def create_one(self, data: dict[str, Any]) -> Pool:
        """Make a pool."""
        return services.create_pool(actor=self.actor, **data)

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Pool:
        """Change a pool."""
        return services.update_pool(actor=self.actor, pool_id=pk, expected_version=version, **data)

    def delete_one(self, pk: UUID, version: int) -> None:
        """Remove a pool."""
        services.delete_pool(actor=self.actor, pool_id=pk, expected_version=version)

    @extend_schema(summary="Capacity of a pool", responses=PoolSummarySerializer)
    @action(detail=True, filter_backends=[], pagination_class=None)
    def summary(self, request: Request, pk: UUID) -> Response:
        """Return what the pool's active agents last reported, added up tier by tier."""
        return Response(PoolSummarySerializer(selectors.pool_summary(self.actor, pk)).data)
