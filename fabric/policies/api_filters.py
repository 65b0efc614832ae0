"""Filters of the API's lists."""

from django_filters import rest_framework as filters  # type: ignore[import-untyped]


class PolicyFilter(filters.FilterSet):  # type: ignore[misc]
    """Policies."""

    name = filters.CharFilter(lookup_expr="icontains", max_length=100)
    pool = filters.UUIDFilter(field_name="pool_policies__pool_id")
    ordering = filters.OrderingFilter(fields=["name", "created_at", "updated_at"])


class RevisionFilter(filters.FilterSet):  # type: ignore[misc]
    """Revisions of one policy."""

    digest = filters.CharFilter(max_length=80)
    created_by = filters.CharFilter(max_length=255)
    ordering = filters.OrderingFilter(fields=["number", "created_at"])
