"""A log file that a child writes by itself and that stays bounded all the same."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

MAX_LOG_BYTES = 8 << 20
KEPT_LOGS = 2
TAIL_BYTES = 16 << 10


class BoundedLog:
    """`<name>.log` and at most `KEPT_LOGS` older ones beside it.

    The child holds the file open in append mode, so no pipe needs draining and nothing is lost while the supervisor is
    busy or dead. To rotate, the content is copied aside and the file is cut to nothing, as logrotate's copytruncate
    does: the child need not know. What it writes in the microseconds between copy and cut is lost.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._start = 0

    def open_for_child(self) -> int:
        """Return a descriptor in append mode; what is written from now on belongs to `lines_since_start`."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._start = os.fstat(descriptor).st_size
        return descriptor

    def text_since_start(self) -> str:
        """Return what the newest child has written, its last `TAIL_BYTES` at most."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(min(self._start, size), size - TAIL_BYTES))
                return file.read(TAIL_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def last_lines(self, count: int) -> list[str]:
        """Return the last `count` lines that the newest child has written; empty lines are left out."""
        return [line for line in self.text_since_start().splitlines() if line.strip()][-count:]

    def rotate_if_large(self) -> bool:
        """Move the content aside when it has reached its bound; tell whether it was moved."""
        try:
            if self.path.stat().st_size < self._max_bytes:
                return False
        except FileNotFoundError:
            return False
        for number in range(KEPT_LOGS, 1, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        with (
            suppress(OSError),  # on a full disk the old lines are given up: the bound holds all the same
            self.path.open("rb") as source,
            open(self._numbered(1), "wb", opener=_private) as target,
        ):
            shutil.copyfileobj(source, target)
        os.truncate(self.path, 0)
        self._start = 0
        return True

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
