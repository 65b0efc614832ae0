"""Abstract bases of every model. No `save()` override anywhere: what writes is a service."""

import uuid

from django.db import models


class UUIDModel(models.Model):
    """Public identity: a UUID that the server makes, never a host name or a serial."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)

    class Meta:
        abstract = True


class Timestamped(models.Model):
    """When a row was made and last changed."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class Versioned(models.Model):
    """Optimistic lock: services raise `StaleVersion` unless the caller knows the current number."""

    version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        abstract = True
