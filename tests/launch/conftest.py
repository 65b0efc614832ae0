"""Start the supervisor script with a plan and look at it from outside, as an operator would."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import ROOT
from tests.support.servers import wait_until

SLEEPS = "import time; print('up'); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(600)"


def command_line(process: psutil.Process) -> str:
    """Return the command line of a process; nothing for one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process still runs; one that has ended and waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Running:
    """A supervisor process, where it keeps its files, and what it has said."""

    process: subprocess.Popen[str]
    home: Path

    @property
    def said(self) -> str:
        return (self.home / "said").read_text()

    def wait_said(self, text: str, timeout_s: float = 15) -> None:
        wait_until(lambda: text in self.said, timeout_s, message=f"{text!r} in:\n{self.said}")

    def children(self) -> list[psutil.Process]:
        """The processes under the supervisor, its undertaker left out."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in found if "undertaker" not in command_line(process)]

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send a signal, as Ctrl-C does, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start supervisors; whatever is left of them at the end of the test is killed and fails it."""
    started: list[Running] = []

    def start(*services: dict[str, Any], home: Path = tmp_path, ready: bool = True, **times: float) -> Running:
        plan = {"home": str(home), "services": services, "times": {"TICK_S": 0.05} | times}
        with (home / "said").open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.launch.supervised", json.dumps(plan)],
                cwd=ROOT,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
            )
        running = Running(process, home)
        started.append(running)
        if ready:
            running.wait_said("READY")
        return running

    yield start
    for running in started:
        if running.process.poll() is None:
            leftovers = psutil.Process(running.process.pid).children(recursive=True)
            running.process.kill()
            running.process.wait()
            for process in leftovers:
                if process.is_running():
                    os.kill(process.pid, signal.SIGKILL)
