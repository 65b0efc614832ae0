"""Django app configuration."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Registers the app."""

    name = "fabric.accounts"
    label = "accounts"
