"""What of the audit trail is shown."""

from rest_framework import serializers

from fabric.audit.models import AuditEntry


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    """One act: who, when, what, on which object, what it was, what it became, why."""

    before = serializers.DictField()
    after = serializers.DictField()

    class Meta:
        model = AuditEntry
        fields = [
            "id",
            "at",
            "actor_kind",
            "actor_id",
            "actor_name",
            "verb",
            "object_type",
            "object_id",
            "object_label",
            "reason",
            "before",
            "after",
            "request_id",
        ]
        read_only_fields = fields
