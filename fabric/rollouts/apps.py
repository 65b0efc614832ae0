"""Django app configuration."""

from django.apps import AppConfig


class RolloutsConfig(AppConfig):
    """Registers the app."""

    name = "fabric.rollouts"
    label = "rollouts"
