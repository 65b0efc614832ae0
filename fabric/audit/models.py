"""The audit trail: append-only rows."""

from typing import Any

from django.db import models

from fabric.core.models import UUIDModel


class AuditEntry(UUIDModel):
    """One act on one object. `before` and `after` hold what changed, never a secret."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=64, blank=True)
    actor_name = models.CharField(max_length=255)
    verb = models.CharField(max_length=64)
    object_type = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    object_label = models.CharField(max_length=255)
    reason = models.TextField(blank=True)
    before: Any = models.JSONField(default=dict)
    after: Any = models.JSONField(default=dict)
    request_id = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-at"]
        indexes = [models.Index(fields=["object_type", "object_id", "-at"])]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor_name} {self.verb} {self.object_type} {self.object_label}"
