#!/usr/bin/env python
"""Django's command line, with this project's settings."""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line

from fabric.env import SettingsError

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fabric.settings")
    try:
        settings.HOME  # noqa: B018 - reads the settings, so that a mistake in one is a line and not a traceback
    except SettingsError as error:
        print(f"context-memory-fabric: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    execute_from_command_line(sys.argv)
