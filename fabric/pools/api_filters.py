"""Filters of the API's list."""

from django_filters import rest_framework as filters  # type: ignore[import-untyped]


class PoolFilter(filters.FilterSet):  # type: ignore[misc]
    """Pools."""

    name = filters.CharFilter(lookup_expr="icontains", max_length=100)
    pod = filters.UUIDFilter(field_name="pod_id")
    site = filters.UUIDFilter(field_name="pod__site_id")
    ordering = filters.OrderingFilter(fields=["name", "created_at", "updated_at", "agent_count"])
