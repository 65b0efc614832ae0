"""Filters of the list of people."""

from fabric.accounts.models import ROLE_CHOICES, User
from fabric.core.web.filters import ChoiceFilter, FilterSet


class PersonFilter(FilterSet):
    """Search and role."""

    search_fields = ("username", "email")
    role = ChoiceFilter(choices=ROLE_CHOICES, empty_label="any")

    class Meta:
        model = User
        fields: list[str] = []
