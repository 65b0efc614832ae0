"""`manage.py up` as an operator starts it: refusals in one line, a whole fabric up, stopped, and up again."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conftest import ROOT
from tests.launch.conftest import command_line, is_alive
from tests.support.servers import clean_environment, end, free_port, wait_until


class Up:
    """Ports and a home for `manage.py up`, and the process while one runs."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.port = free_port()
        ports = {
            "FABRIC_HOME": str(home),
            "FABRIC_PORT": str(self.port),
            "FABRIC_AGENT_RESP_PORT": str(free_port()),
            "FABRIC_AGENT_MANAGE_PORT": str(free_port()),
            "FABRIC_REPLAY_METRICS_PORT": str(free_port()),
            "FABRIC_REPLAY_PAYLOAD_BYTES": "4096",
            "FABRIC_AGENT_DRAM_LIMIT": "16MiB",
            "FABRIC_AGENT_FLASH_LIMIT": "32MiB",
        }
        self.environment = clean_environment(**(ports | settings))
        self.process: subprocess.Popen[str] | None = None
        self.output = home.parent / f"{home.name}.out"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        return self.output.read_text()

    def once(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end, for refusals."""
        return subprocess.run(
            [sys.executable, "manage.py", "up", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, *arguments: str) -> float:
        """Start it and wait until it says that it is ready; return the seconds that took."""
        started_s = time.monotonic()
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", *arguments],
                cwd=ROOT,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        wait_until(self._is_ready, timeout_s=120, step_s=0.1, message="manage.py up being ready")
        return time.monotonic() - started_s

    def children(self) -> list[psutil.Process]:
        assert self.process
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, words: str) -> psutil.Process:
        """Return the supervisor's own child whose command line holds `words`."""
        assert self.process
        for process in psutil.Process(self.process.pid).children():
            if words in command_line(process):
                return process
        raise AssertionError(f"no child with {words}")

    def stop(self, number: int = signal.SIGINT) -> int:
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(60)

    def _is_ready(self) -> bool:
        assert self.process
        assert self.process.poll() is None, f"it ended:\n{self.said}"
        return "Ready" in self.said


@pytest.fixture
def up(tmp_path: Path) -> Up:
    """An `up` in a fresh home that nobody has started."""
    return Up(tmp_path / "home")


@pytest.fixture
def deep_up() -> Iterator[Up]:
    """An `up` in a home whose path is too long for a unix socket; ended with the test, whatever happens."""
    root = Path(tempfile.mkdtemp(prefix="kvf-up-"))
    up = Up(root / ("deep-" * 20))
    yield up
    if up.process and up.process.poll() is None:
        leftovers = up.children()
        end(up.process, grace_s=30)
        for process in leftovers:
            if process.is_running():
                process.kill()
    shutil.rmtree(root, ignore_errors=True)


def _refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of a refusal."""
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("context-memory-fabric: ")
    return line


def test_check_starts_nothing_and_says_so(up: Up) -> None:
    done = up.once("--check")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Nothing stands in the way of starting redis, web, worker")
    assert not (up.home / "db.sqlite3").exists()


def test_taken_port_is_one_line_and_exit_code_two(up: Up) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", up.port))
        taken.listen()
        assert f"port {up.port} (web) is taken" in _refusal(up.once())
    assert not (up.home / "db.sqlite3").exists()


def test_too_little_disk_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    line = _refusal(Up(tmp_path / "home", FABRIC_AGENT_FLASH_LIMIT="900TiB").once("--check"))
    assert "MiB free" in line
    assert "lower FABRIC_AGENT_FLASH_LIMIT" in line


def test_setting_that_cannot_hold_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    line = _refusal(Up(tmp_path / "home", FABRIC_PORT="eighty").once("--check"))
    assert "FABRIC_PORT: Input should be a valid integer" in line


def test_home_that_cannot_be_made_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "set FABRIC_HOME" in _refusal(Up(tmp_path / "file" / "home").once("--check"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "web,wroker"], "no service is named wroker: choose from redis, web, worker"),
        (["--without", "redis,web,worker,beat,scraper,agent,replay"], "no service is left to run"),
    ],
)
def test_unknown_or_no_service_is_one_line_and_exit_code_two(up: Up, arguments: list[str], said: str) -> None:
    assert said in _refusal(up.once("--check", *arguments))


def test_part_of_the_fabric_on_a_database_that_is_not_migrated_is_refused(up: Up) -> None:
    assert "run manage.py migrate, or start the web service first" in _refusal(up.once("--only", "beat"))


def test_database_that_does_not_answer_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    nowhere = f"postgres://fabric@127.0.0.1:{free_port()}/fabric"
    done = Up(tmp_path / "home", DATABASE_URL=nowhere).once()
    assert "the database does not do its work" in _refusal(done)


def test_closed_output_does_not_matter(up: Up) -> None:
    """A terminal that went away is no reason to fail."""
    command = f"{sys.executable} manage.py up --check >/dev/full"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, env=up.environment, capture_output=True, timeout=60)
    assert b"Traceback" not in done.stderr
    assert "Nothing stands in the way" in (up.home / "log" / "up.log").read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_whole_fabric_starts_heals_stops_and_goes_on(deep_up: Up) -> None:
    up = deep_up
    assert up.start() < 120
    assert httpx.get(f"{up.url}/readyz").status_code == 200
    password = re.search(r"^The first user is admin with password: (\S{16,})$", up.said, re.M)
    assert password
    assert up.url in up.said
    assert str(up.home / "log") in up.said
    for path in up.home.rglob("*"):
        assert password[1].encode() not in (path.read_bytes() if path.is_file() else b""), path
    identity = up.home / "agents" / "local" / "identity.json"
    agent_id = json.loads(identity.read_bytes())["agent_id"]
    wait_until(lambda: (identity.parent / "policy.json").exists(), timeout_s=30, message="the first policy")
    assert not (up.home / "secrets" / "local_agent_join_token").exists(), "the agent deletes the token that it used"
    second = up.once()
    assert "already runs on this home" in _refusal(second)
    _kill_each_and_wait(up)
    children = up.children()
    assert up.stop() == 0
    assert not any(map(is_alive, children)), "orphans"

    assert up.start() < 20
    assert "password" not in up.said
    assert httpx.get(f"{up.url}/readyz").status_code == 200
    assert json.loads(identity.read_bytes())["agent_id"] == agent_id
    children = up.children()
    assert up.process
    up.process.kill()
    up.process.wait()
    wait_until(lambda: not any(map(is_alive, children)), timeout_s=15, message="the end of its children")


def _kill_each_and_wait(up: Up) -> None:
    """SIGKILL every service once; each must come back."""
    victims = {
        "web": up.child("uvicorn"),
        "worker": up.child("fabric.celery worker"),
        "beat": up.child("fabric.celery beat"),
        "scraper": up.child("manage.py scrape"),
        "agent": up.child("-m agent"),
        "replay": up.child("bench.replay"),
        "redis": up.child("redis-server"),
    }
    for process in victims.values():
        os.kill(process.pid, signal.SIGKILL)
    for name in victims:
        wait_until(lambda name=name: f"{name} is back" in up.said, timeout_s=60, message=f"{name} coming back")
        assert f"{name} ended (SIGKILL)" in up.said
    wait_until(lambda: _is_up(up.url), timeout_s=20, message="the web server answering again")


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
