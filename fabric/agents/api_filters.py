"""Filters of the API's lists."""

from django_filters import rest_framework as filters  # type: ignore[import-untyped]

from fabric.agents.models import AgentState


class AgentFilter(filters.FilterSet):  # type: ignore[misc]
    """Agents."""

    name = filters.CharFilter(lookup_expr="icontains", max_length=100)
    state = filters.ChoiceFilter(choices=AgentState.choices)
    pool = filters.UUIDFilter(field_name="pool_id")
    host = filters.UUIDFilter(field_name="host_id")
    hostname = filters.CharFilter(lookup_expr="icontains", max_length=255)
    serial = filters.CharFilter(lookup_expr="iexact", max_length=255)
    silent_since = filters.IsoDateTimeFilter(field_name="last_heartbeat_at", lookup_expr="lt")
    ordering = filters.OrderingFilter(fields=["name", "state", "hostname", "last_heartbeat_at", "created_at"])


class JoinTokenFilter(filters.FilterSet):  # type: ignore[misc]
    """Join tokens."""

    name = filters.CharFilter(lookup_expr="icontains", max_length=100)
    pool = filters.UUIDFilter(field_name="pool_id")
    revoked = filters.BooleanFilter(field_name="revoked_at", lookup_expr="isnull", exclude=True)
    ordering = filters.OrderingFilter(fields=["name", "created_at", "expires_at"])
