"""Filters of the list of policies."""

from fabric.core.web.filters import FilterSet
from fabric.policies.models import Policy


class PolicyFilter(FilterSet):
    """Search by name and description."""

    search_fields = ("name", "description")

    class Meta:
        model = Policy
        fields: list[str] = []
