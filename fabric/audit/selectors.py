"""Reads of the audit trail; any signed-in role may read it."""

from uuid import UUID

from django.db.models import QuerySet

from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor


def audit_entries_for_list(actor: Actor) -> QuerySet[AuditEntry]:
    """Return every row, newest first."""
    return AuditEntry.objects.order_by("-at", "-pk")


def audit_entries_for_object(actor: Actor, object_type: str, object_id: UUID | str) -> QuerySet[AuditEntry]:
    """Return what was done to one object (`object_type` such as `pools.pool`), newest first."""
    return audit_entries_for_list(actor).filter(object_type=object_type, object_id=str(object_id))
