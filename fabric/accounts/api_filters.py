"""Filters of the API's lists."""

from django_filters import rest_framework as filters  # type: ignore[import-untyped]

from fabric.accounts.models import ROLE_CHOICES


class UserFilter(filters.FilterSet):  # type: ignore[misc]
    """People."""

    username = filters.CharFilter(lookup_expr="icontains", max_length=150)
    role = filters.ChoiceFilter(choices=ROLE_CHOICES)
    is_active = filters.BooleanFilter()
    ordering = filters.OrderingFilter(fields=["username", "role", "date_joined", "last_login"])


class ApiTokenFilter(filters.FilterSet):  # type: ignore[misc]
    """Tokens."""

    name = filters.CharFilter(lookup_expr="icontains", max_length=100)
    role = filters.ChoiceFilter(choices=ROLE_CHOICES)
    revoked = filters.BooleanFilter(field_name="revoked_at", lookup_expr="isnull", exclude=True)
    ordering = filters.OrderingFilter(fields=["name", "created_at", "expires_at", "last_used_at"])
