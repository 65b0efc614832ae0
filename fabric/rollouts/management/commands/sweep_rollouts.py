"""`manage.py sweep_rollouts`: the sweeper without Celery, for a fabric whose broker is down or that runs none."""

import argparse
import time
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from fabric.rollouts.services import sweep_rollouts


class Command(BaseCommand):
    """Sweep once, or again and again."""

    help = "Observe open rollouts and push what is due; with a dead broker it pushes a few targets itself."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--loop", action="store_true", help="go on until interrupted")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print one line for each sweep."""
        while True:
            report = sweep_rollouts()
            self.stdout.write(" ".join(f"{name}={value}" for name, value in asdict(report).items()))
            if not options["loop"]:
                return
            time.sleep(settings.ENV.rollout_sweep_interval_s)
