"""`manage.py up`: checks, prepares and runs the fabric until it is told to stop."""

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, connection, connections
from django.db.migrations.executor import MigrationExecutor

from fabric.accounts.services import ensure_admin
from fabric.core.actor import SYSTEM
from fabric.launch import preflight
from fabric.launch.locks import LockedError, hold
from fabric.launch.logfile import BoundedLog
from fabric.launch.processes import NAMES, services
from fabric.launch.services import admit_local_agent, register_replay_target, seed_first_objects
from fabric.launch.supervisor import Supervisor

EXIT_CANNOT_START = 2
EXIT_INTERRUPTED = 130


class Command(BaseCommand):
    """The whole fabric, or the chosen parts of it, under one supervisor."""

    help = "Run the fabric: Redis, web server, worker, beat, scraper, a local agent and a replay client."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Which services, and whether to start at all."""
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument("--only", metavar="NAMES", help=f"run only these, separated by commas: {', '.join(NAMES)}")
        chosen.add_argument("--without", metavar="NAMES", help="run all but these")
        parser.add_argument("--check", action="store_true", help="tell what stands in the way and start nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run; the exit code is 0 when stopped as asked, 2 when something stood in the way of a start."""
        os.umask(0o077)
        self._log = BoundedLog(settings.LOG_DIR / "up.log")
        names = self._chosen(options["only"], options["without"])
        try:
            sys.exit(self._run(names, check=options["check"]))
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)

    def _chosen(self, only: str | None, without: str | None) -> list[str]:
        given = [name.strip() for name in (only or without or "").split(",") if name.strip()]
        unknown = [name for name in given if name not in NAMES]
        if unknown:
            self._refuse([f"no service is named {', '.join(unknown)}: choose from {', '.join(NAMES)}"])
        chosen = [name for name in NAMES if (name in given if only else name not in given)]
        if not chosen:
            self._refuse([f"no service is left to run: choose from {', '.join(NAMES)}"])
        return chosen

    def _run(self, names: list[str], *, check: bool) -> int:
        self._refuse(preflight.problems(names))
        try:
            locks = hold(settings.RUN_DIR, names)
        except LockedError as error:
            self._refuse([str(error)])
            raise
        self._refuse(preflight.port_problems(names))
        if check:
            self._say(f"Nothing stands in the way of starting {', '.join(names)}.")
            return 0
        self._log.rotate_if_large()
        self._prepare(names)
        connections.close_all()
        supervisor = Supervisor(services(names), settings.LOG_DIR, self._say, locks=locks)
        code = supervisor.run(lambda: self._announce(names))
        self._say("Stopped.")
        return code

    def _prepare(self, names: list[str]) -> None:
        """Bring the database up to date and put in it what the services need to find there."""
        try:
            if "web" in names:
                self._say("Preparing the database …")
                call_command("migrate", verbosity=0, interactive=False)
                self._tell_password(ensure_admin())
                seed_first_objects(actor=SYSTEM)
            elif _has_unapplied_migrations():
                self._refuse(["the database is not up to date: run manage.py migrate, or start the web service first"])
            if "agent" in names:
                admit_local_agent(actor=SYSTEM)
            if "replay" in names:
                register_replay_target()
        except DatabaseError as error:
            reason = str(error).strip().splitlines()
            self._refuse([f"the database does not do its work ({reason[0] if reason else error}): see DATABASE_URL"])

    def _tell_password(self, password: str | None) -> None:
        if password is not None:  # to the terminal alone: a log would keep it
            self.stdout.write(f"The first user is admin with password: {password}\n(It is shown this once.)")
            self.stdout.flush()

    def _announce(self, names: list[str]) -> None:
        if "web" in names:
            self._say(f"Ready at {settings.PUBLIC_URL} - sign in as admin.")
        else:
            self._say(f"Ready: {', '.join(names)}.")
        self._say(f"Logs are in {settings.LOG_DIR}. Ctrl-C stops everything.")

    def _refuse(self, problems: Iterable[str]) -> None:
        """Say each problem in a line of its own and end with exit code 2; do nothing when there is none."""
        found = list(problems)
        for problem in found:
            self.stderr.write(f"context-memory-fabric: {problem}")
        if found:
            sys.exit(EXIT_CANNOT_START)

    def _say(self, line: str) -> None:
        """Tell the operator, here and in up.log. A closed terminal or a full disk must not end what runs."""
        with suppress(OSError):
            self.stdout.write(line)
            self.stdout.flush()
        with suppress(OSError), open(self._log.open_for_child(), "w") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")


def _has_unapplied_migrations() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
