"""REST edge of the audit trail: read only."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view

from fabric.audit import selectors
from fabric.audit.api_filters import AuditEntryFilter
from fabric.audit.models import AuditEntry
from fabric.audit.serializers import AuditEntrySerializer
from fabric.core.api.views import ListAndRetrieve


@extend_schema_view(
    list=extend_schema(summary="List what was done"),
    retrieve=extend_schema(summary="Read one act"),
)
class AuditEntryViewSet(ListAndRetrieve):
    """Who changed what, when and why."""

    serializer_class = AuditEntrySerializer
    filterset_class = AuditEntryFilter

    def rows(self) -> QuerySet[AuditEntry]:
        """Return the rows that the actor may see."""
        return selectors.audit_entries_for_list(self.actor)
