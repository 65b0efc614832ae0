"""Filters of the audit log. The API's are another set, since an API names fields and a page asks questions."""

from typing import Any

from django.db.models import QuerySet

from fabric.audit.models import AuditEntry
from fabric.core.web.filters import CharFilter, ChoiceFilter, DateFilter, FilterSet

_TYPES = (
    ("accounts.user", "person"),
    ("accounts.apitoken", "API token"),
    ("agents.agent", "agent"),
    ("agents.jointoken", "join token"),
    ("inventory.dpu", "DPU"),
    ("inventory.host", "host"),
    ("inventory.pod", "pod"),
    ("inventory.site", "site"),
    ("inventory.ssd", "SSD"),
    ("inventory.switch", "switch"),
    ("policies.policy", "policy"),
    ("policies.revision", "revision"),
    ("pools.pool", "pool"),
    ("rollouts.rollout", "rollout"),
)


class AuditFilter(FilterSet):
    """Search, who, what sort of object, and days."""

    search_fields = ("object_label", "actor_name", "verb", "reason", "request_id")
    search_hint = "Object, person, verb, reason…"
    actor_name = CharFilter(lookup_expr="icontains", label="Who", max_length=100)
    object_type = ChoiceFilter(choices=_TYPES, label="Object", empty_label="any")
    object_id = CharFilter(label="Object id", max_length=64)
    since = DateFilter(method="from_day", label="From day")
    until = DateFilter(method="to_day", label="To day")

    class Meta:
        model = AuditEntry
        fields: list[str] = []

    def from_day(self, queryset: QuerySet[Any], name: str, value: Any) -> QuerySet[Any]:
        """Keep rows of this day and later, in the reader's time zone."""
        return queryset.filter(at__gte=self.start_of(value))

    def to_day(self, queryset: QuerySet[Any], name: str, value: Any) -> QuerySet[Any]:
        """Keep rows up to the end of this day."""
        return queryset.filter(at__lt=self.start_of(value, days_later=1))
