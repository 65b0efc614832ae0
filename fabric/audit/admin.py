"""Site admin: the audit trail."""

from django.contrib import admin

from fabric.audit.models import AuditEntry
from fabric.core.admin import ReadOnlyAdmin


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """Acts."""

    list_display = ["at", "actor_name", "verb", "object_type", "object_label"]
    list_filter = ["actor_kind", "object_type", "verb"]
    search_fields = ["actor_name", "object_label", "object_id"]
    date_hierarchy = "at"
