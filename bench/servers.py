"""Servers to measure: a storage agent and a redis-server, each in its own directory, on loopback, ended after use."""

import contextlib
import http.client
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import redis

START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 10.0
ROOT = Path(__file__).resolve().parent.parent


class BenchError(Exception):
    """The bench cannot run: one line that says what is missing."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it answers, with which password, under which process id."""

    name: str
    port: int
    password: str
    process_id: int

    def client(self) -> redis.Redis:
        """Return a client of it."""
        return redis.Redis(port=self.port, password=self.password, socket_timeout=60)


@contextlib.contextmanager
def running_redis(program: str) -> Iterator[Server]:
    """Run `program` (redis-server or valkey-server) without persistence."""
    port, password = free_port(), secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory(prefix="kvf-bench-") as directory:
        settings = Path(directory) / "redis.conf"  # the password does not belong on a command line
        settings.write_text(
            f'bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {directory}\nsave ""\nappendonly no\n'
        )
        with _running([program, str(settings)], {}, Path(directory) / "log") as process:
            server = Server("redis", port, password, process.pid)
            _wait(process, lambda: _answers(server), Path(directory) / "log")
            yield server


@contextlib.contextmanager
def running_agent(dram_bytes: int) -> Iterator[Server]:
    """Run an agent without a control plane that keeps `dram_bytes` of blocks in DRAM and none on flash.

    The default policy gives DRAM a quarter of the agent's limit.
    """
    resp_port, manage_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="kvf-bench-") as directory:
        environment = {
            "KVAGENT_STATE_DIR": directory,
            "KVAGENT_RESP_PORT": str(resp_port),
            "KVAGENT_MANAGE_PORT": str(manage_port),
            "KVAGENT_DRAM_LIMIT_BYTES": str(4 * dram_bytes),
            "KVAGENT_FLASH_LIMIT_BYTES": "0",
        }
        log = Path(directory) / "log"
        with _running([sys.executable, "-m", "agent"], environment, log) as process:
            _wait(process, lambda: _is_ready(manage_port), log)
            yield Server("agent", resp_port, (Path(directory) / "resp_password").read_text().strip(), process.pid)


def find_program(*names: str) -> str:
    """Return the first of the programs that is on PATH. Raises `BenchError`."""
    for name in names:
        if path := shutil.which(name):
            return path
    raise BenchError(f"{names[0]} is not installed: on Debian, apt-get install redis-server redis-tools")


def free_port() -> int:
    """Return a TCP port of the loopback address that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _running(command: list[str], environment: dict[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: "subprocess.Popen[bytes]", ready: Callable[[], bool], log: Path) -> None:
    until_s = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if process.poll() is not None or time.monotonic() > until_s:
            lines = log.read_text(errors="replace").splitlines()
            raise BenchError(f"a server did not start: {lines[-1] if lines else 'it said nothing'}")
        time.sleep(0.05)


def _answers(server: Server) -> bool:
    with server.client() as client, contextlib.suppress(redis.RedisError):
        return bool(client.ping())
    return False


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
