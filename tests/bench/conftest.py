"""Real agents without a control plane, on ports of their own."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.conftest import ROOT
from tests.support.servers import clean_environment, end, free_port, wait_until


@dataclass
class RunningAgent:
    """A `python -m agent` process that runs the default policy (a quarter of DRAM, half of flash)."""

    state_dir: Path
    environment: dict[str, str]
    resp_port: int = field(default_factory=free_port)
    manage_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.resp_port}"

    @property
    def password_file(self) -> Path:
        return self.state_dir / "resp_password"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        environment = clean_environment(
            KVAGENT_STATE_DIR=str(self.state_dir),
            KVAGENT_RESP_PORT=str(self.resp_port),
            KVAGENT_MANAGE_PORT=str(self.manage_port),
            **self.environment,
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agent"], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL
        )
        wait_until(self._ready, timeout_s=20, message="the agent being ready")

    def stop(self) -> None:
        if self.process:
            end(self.process)

    def metrics(self) -> dict[str, float]:
        """Return its exposition: series text to value."""
        token = (self.state_dir / "metrics_token").read_text().strip()
        reply = httpx.get(
            f"http://127.0.0.1:{self.manage_port}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=5
        )
        return series(reply.raise_for_status().text)

    def _ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{self.manage_port}/readyz", timeout=1).status_code == 200
        return False


def series(text: str) -> dict[str, float]:
    """Return a Prometheus text as series to value."""
    lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """One agent for all tests of a module that only put blocks of their own into it. DRAM only."""
    running = RunningAgent(tmp_path_factory.mktemp("agent"), {"KVAGENT_FLASH_LIMIT_BYTES": "0"})
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., RunningAgent]]:
    """Start agents with settings given as KVAGENT_ names without the prefix, in lower case; all end with the test."""
    started: list[RunningAgent] = []

    def start(**settings: object) -> RunningAgent:
        environment = {f"KVAGENT_{name.upper()}": str(value) for name, value in settings.items()}
        agent = RunningAgent(tmp_path / f"agent-{len(started)}", environment)
        started.append(agent)
        agent.start()
        return agent

    yield start
    for agent in started:
        agent.stop()
