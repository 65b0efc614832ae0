"""Django app configuration."""

from django.apps import AppConfig


class PoolsConfig(AppConfig):
    """Registers the app."""

    name = "fabric.pools"
    label = "pools"
