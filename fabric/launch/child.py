"""One supervised process: in a session of its own, tied to the supervisor's life, ended with everything it started."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from fabric.launch import undertaker
from fabric.launch.logfile import BoundedLog

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)

Readiness = Callable[[BoundedLog], bool]
"""Tells whether a service is ready, in at most a second; it may look at what the service has logged."""


@dataclass(frozen=True, slots=True)
class Service:
    """What to run and how to tell that it runs.

    `after` names services that must be ready before this one is first started. When an `essential` one does not get
    ready, nothing is; of the others it is only told. `stop_grace_s` is the time from SIGTERM to SIGKILL.
    """

    name: str
    command: tuple[str, ...]
    ready: Readiness
    environment: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    essential: bool = False
    ready_timeout_s: float = 60.0
    stop_grace_s: float = 10.0
    directory: Path | None = None


class State(Enum):
    """Where a child is in its life."""

    WAITING = auto()
    STARTING = auto()
    READY = auto()
    BACKING_OFF = auto()
    STOPPED = auto()


class Child:
    """The process of one service, over all its restarts."""

    def __init__(self, service: Service, log: BoundedLog) -> None:
        self.service = service
        self.log = log
        self.state = State.WAITING
        self.group: int | None = None
        """Process id and process group of the newest process, also after its end."""
        self.started_at_s = 0.0
        self.first_started_at_s = 0.0
        self.retry_at_s = 0.0
        self.failures = 0
        self.was_ready = False
        self.told_late = False
        self._process: subprocess.Popen[bytes] | None = None
        self._unreaped: set[int] = set()

    @property
    def name(self) -> str:
        """The service's name."""
        return self.service.name

    @property
    def runs(self) -> bool:
        """Tell whether a process was started whose end was not seen yet."""
        return self._process is not None

    def spawn(self) -> int:
        """Start the process and return its id, which is its process group's too. The caller must be single-threaded.

        Raises:
            OSError: the program cannot be started.
        """
        parent = os.getpid()
        output = self.log.open_for_child()
        try:
            self._process = subprocess.Popen(
                self.service.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | self.service.environment,
                cwd=self.service.directory,
                start_new_session=True,  # a Ctrl-C of the terminal reaches the supervisor alone
                preexec_fn=lambda: _tie_to(parent),  # safe: this process has one thread
            )
        finally:
            os.close(output)
        self.group = self._process.pid
        return self.group

    def exit_code(self) -> int | None:
        """Return the exit code (negative: ended by that signal) when the process has ended since it was started.

        What it had started and left behind is killed with it.
        """
        self._unreaped = {group for group in self._unreaped if not _reaped(group)}
        if self._process is None or (code := self._process.poll()) is None:
            return None
        group = self._process.pid
        self._process = None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        self._unreaped.add(group)
        return code

    def send(self, number: int) -> None:
        """Send a signal to the process and everything in its group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class Undertaker:
    """A helper process that ends the children should this process be killed: see `fabric.launch.undertaker`."""

    def __init__(self, grace_s: float, hold: Sequence[int] = ()) -> None:
        """Start it; `hold` are descriptors of locks that it keeps until it is done."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", undertaker.__file__, str(grace_s)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            pass_fds=hold,
        )

    @property
    def alive(self) -> bool:
        """Tell whether it still runs."""
        return self._process.poll() is None

    def watch(self, group: int) -> None:
        """Take charge of a process group."""
        self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """A process group has ended."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """End it; groups that it still has in charge are ended first."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()

    def _tell(self, text: str) -> None:
        if self._process.stdin:
            with contextlib.suppress(OSError):  # it died: the supervisor sees that and makes another
                self._process.stdin.write(text.encode())
                self._process.stdin.flush()


def adopt_orphans() -> None:
    """Make this process the parent of what its children leave behind, so that it can be reaped."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _tie_to(parent: int) -> None:
    """Run in the new process before the program: get a SIGTERM when the supervisor dies, and block no signal."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reaped(group: int) -> bool:
    """Take the exit statuses of a group's processes; tell whether none is left."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False
