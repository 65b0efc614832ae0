"""`manage.py register_target`: registers a scrape target; the same values again change nothing."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fabric.core.actor import SYSTEM
from fabric.core.errors import FabricError
from fabric.pools.models import Pool
from telemetry.models import TargetKind
from telemetry.services import register_target


class Command(BaseCommand):
    """One target from the command line."""

    help = "Register a scrape target. The bearer token is read from a file, never from the command line."

    def add_arguments(self, parser: CommandParser) -> None:
        """Name, kind, URL, and what goes with them."""
        parser.add_argument("name")
        parser.add_argument("--kind", choices=TargetKind.values, required=True)
        parser.add_argument("--url", required=True, help="http(s)://host:port/metrics")
        parser.add_argument("--token-file", type=Path, help="file whose only content is the bearer token")
        parser.add_argument("--pool", help="name of the pool whose traffic it measures")

    def handle(self, *args: Any, **options: Any) -> None:
        """Register, or say what is wrong."""
        token = _read(options["token_file"]) if options["token_file"] else None
        try:
            target = register_target(
                actor=SYSTEM,
                name=options["name"],
                kind=options["kind"],
                url=options["url"],
                bearer_token=token,
                pool_id=_pool_id(options["pool"]) if options["pool"] else None,
            )
        except FabricError as error:
            details = "; ".join(f"{p.field}: {p.problem} ({p.remedy})" for p in error.problems)
            raise CommandError(f"{error.title} {details}".strip()) from None
        self.stdout.write(f"target {target.name} registered ({target.kind}, {target.url})")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"the token file {path} cannot be read: {error}") from None


def _pool_id(name: str) -> Any:
    pool = Pool.objects.filter(name=name).first()
    if pool is None:
        raise CommandError(f"there is no pool named {name!r}")
    return pool.pk
