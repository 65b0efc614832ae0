"""Filters of the API's list."""

from django_filters import rest_framework as filters  # type: ignore[import-untyped]


class AuditEntryFilter(filters.FilterSet):  # type: ignore[misc]
    """By actor, verb, object and time."""

    actor_kind = filters.CharFilter(max_length=16)
    actor_id = filters.CharFilter(max_length=64)
    actor_name = filters.CharFilter(lookup_expr="icontains", max_length=255)
    verb = filters.CharFilter(max_length=64)
    object_type = filters.CharFilter(max_length=64)
    object_id = filters.CharFilter(max_length=64)
    object_label = filters.CharFilter(lookup_expr="icontains", max_length=255)
    request_id = filters.CharFilter(max_length=64)
    after = filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
    before = filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")
    ordering = filters.OrderingFilter(fields=["at", "actor_name", "verb"])
