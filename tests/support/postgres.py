"""A temporary PostgreSQL server for tests: made, started and removed here; only on a unix socket."""

import contextlib
import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def postgres_bin() -> Path | None:
    """Return the directory of the newest installed PostgreSQL server's programs, or None."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if found:
        return Path(found[-1]).parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Run a PostgreSQL in a directory of its own; yield a DATABASE_URL to it.

    PostgreSQL refuses to run as root, so root hands it to the package's `postgres` user.
    """
    programs = postgres_bin()
    assert programs, "no PostgreSQL server: apt-get install postgresql"
    directory = Path(tempfile.mkdtemp(prefix="kvf-pg-"))
    as_other: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(directory, "postgres", "postgres")
        as_other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = directory / "data"

    def run(*arguments: str) -> None:
        subprocess.run([*as_other, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=directory)

    try:
        run(
            str(programs / "initdb"),
            "-D",
            str(data),
            "-U",
            "fabric",
            "--auth=trust",
            "-E",
            "UTF8",
            "--no-sync",
            "--locale=C",
        )
        options = f"-k {directory} -c listen_addresses='' -c fsync=off -c max_connections=200"
        run(str(programs / "pg_ctl"), "-D", str(data), "-o", options, "-l", str(directory / "log"), "-w", "start")
        yield f"postgres://fabric@{str(directory).replace('/', '%2F')}/postgres"
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(directory, ignore_errors=True)
