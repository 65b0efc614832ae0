"""Django app configuration."""

from django.apps import AppConfig


class InventoryConfig(AppConfig):
    """Registers the app."""

    name = "fabric.inventory"
    label = "inventory"
