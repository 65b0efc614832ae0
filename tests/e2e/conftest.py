"""One running fabric for the module's tests, on ports and a home of its own, and a Chromium to look at it with."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.conftest import ROOT
from tests.support.servers import clean_environment, end, free_port, wait_until

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Fabric:
    """A running `manage.py up`: where it answers, the admin's password, and its processes."""

    process: subprocess.Popen[str]
    home: Path
    url: str
    password: str
    output: Path

    def child(self, name: str) -> psutil.Process:
        """Return the running process which the supervisor calls `name`."""
        needles = {
            "agent": ["-m", "agent"],
            "replay": ["bench.replay"],
            "web": ["uvicorn"],
            "worker": ["worker"],
            "beat": ["beat"],
            "scraper": ["scrape"],
            "redis": ["redis-server"],
        }[name]
        for process in psutil.Process(self.process.pid).children(recursive=True):
            line = process.cmdline()
            text = " ".join(line)
            if all(any(needle in part for part in line) for needle in needles) and "multiprocessing" not in text:
                return process
        raise AssertionError(f"no process {name} among the supervisor's children")


def chromium_path() -> str | None:
    """Return the Chromium to use: CHROMIUM in the environment, else Debian's."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium of Debian's. Not for the session: Playwright's loop would run under every later test."""
    path = chromium_path()
    if not path:
        if os.environ.get("FABRIC_REQUIRE_BROWSER") == "1":
            pytest.fail("FABRIC_REQUIRE_BROWSER=1 but there is no chromium (apt-get install chromium)")
        pytest.skip("no chromium on this machine: apt-get install chromium, or name one in CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def fabric() -> Iterator[Fabric]:
    """`manage.py up` in a fresh home on free ports, with a small memory so that policies bite soon."""
    home = Path(tempfile.mkdtemp(prefix="kvf-up-"))
    port = free_port()
    environment = clean_environment(
        FABRIC_HOME=str(home),
        FABRIC_PORT=str(port),
        FABRIC_AGENT_RESP_PORT=str(free_port()),
        FABRIC_AGENT_MANAGE_PORT=str(free_port()),
        FABRIC_REPLAY_METRICS_PORT=str(free_port()),
        FABRIC_REPLAY_PAYLOAD_BYTES="4096",
        FABRIC_REPLAY_SPEEDUP="60",
        FABRIC_AGENT_DRAM_LIMIT="16MiB",
        FABRIC_AGENT_FLASH_LIMIT="32MiB",
        PYTHONUNBUFFERED="1",
    )
    output = home / "up.out"
    with output.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        password = _password(output, process)
        yield Fabric(process, home, f"http://127.0.0.1:{port}", password, output)
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        end(process, grace_s=30)
        _, alive = psutil.wait_procs(children, timeout=5)
        for orphan in alive:
            orphan.kill()
        shutil.rmtree(home, ignore_errors=True)
        assert not alive, f"orphans after the supervisor ended: {alive}"


def _password(output: Path, process: subprocess.Popen[str]) -> str:
    """Wait until `up` says that it is ready; return the password which it printed."""

    def ready() -> bool:
        assert process.poll() is None, f"manage.py up ended:\n{output.read_text()}"
        return "http://" in output.read_text()

    started = time.monotonic()
    wait_until(ready, timeout_s=120, step_s=0.2, message="manage.py up printing its address")
    found = re.search(r"password:?\s+(\S+)", output.read_text())
    assert found, f"no password in:\n{output.read_text()}"
    assert time.monotonic() - started < 120
    return found[1]
