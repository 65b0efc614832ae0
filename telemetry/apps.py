"""Django app configuration."""

from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    """Registers the app."""

    name = "telemetry"
