"""Django app configuration."""

from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    """Registers the app."""

    name = "fabric.policies"
    label = "policies"
