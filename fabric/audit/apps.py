"""Django app configuration."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Registers the app."""

    name = "fabric.audit"
    label = "audit"
