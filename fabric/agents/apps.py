"""Django app configuration."""

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """Registers the app."""

    name = "fabric.agents"
    label = "agents"
