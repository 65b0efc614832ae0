"""The audit log."""

from django.db.models import QuerySet

from fabric.audit.filters import AuditFilter
from fabric.audit.models import AuditEntry
from fabric.audit.selectors import audit_entries_for_list
from fabric.audit.tables import AuditTable
from fabric.core.web.pages import Empty, ListPage


class AuditList(ListPage):
    """Every act, newest first."""

    title = "Audit log"
    noun = "entries"
    intro = "Who did what to which object, when and why. Written in the same transaction as the change itself."
    table_class = AuditTable
    filterset_class = AuditFilter

    def rows(self) -> QuerySet[AuditEntry]:
        """Return all."""
        return audit_entries_for_list(self.actor)

    def empty(self) -> Empty:
        """Say when rows appear."""
        return Empty(
            "Nothing was changed yet",
            "Every change of people, agents, policies and rollouts leaves a row here.",
            "audit",
        )
