"""Django app configuration."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Registers the app."""

    name = "fabric.core"
    label = "core"
