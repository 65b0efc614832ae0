"""Django app configuration."""

from django.apps import AppConfig


class LaunchConfig(AppConfig):
    """Registers the app."""

    name = "fabric.launch"
    label = "launch"
