"""A whole fabric of real processes that a test may kill one by one: Redis, uvicorn, Celery worker and beat, storage
agents.

Nothing restarts by itself here (the supervisor is tested elsewhere): the test says what dies and what comes back.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import ROOT
from tests.support.servers import clean_environment, free_port, redis_binary, wait_until

MAKE_ADMIN = """
from fabric.accounts.models import User
from fabric.accounts.services import create_api_token, ensure_admin
from fabric.core.actor import Actor, ActorKind, Role
ensure_admin(username="admin")
user = User.objects.get(username="admin")
actor = Actor(ActorKind.USER, str(user.pk), "admin", Role.ADMIN)
print("TOKEN", create_api_token(actor=actor, name="chaos", role="admin", expires_at=None).text)
"""
IN_FORCE = re.compile(r"policy (sha256:[0-9a-f]{64}) in force, generation (\d+)")


class Cluster:
    """The processes by name; each has a log that outlives it."""

    def __init__(self, directory: Path, agents: int) -> None:
        self.directory = directory
        self.agents = [f"agent-{number}" for number in range(agents)]
        self._ports = {name: free_port() for name in ("web", *self.agents, *(f"{a}-data" for a in self.agents))}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"http://127.0.0.1:{self._ports['web']}"
        self.token = ""
        self._environment = clean_environment(
            FABRIC_HOME=str(directory / "home"),
            FABRIC_PORT=str(self._ports["web"]),
            REDIS_URL=f"unix://{directory}/redis.sock",
            FABRIC_ROLLOUT_LEASE_S="4",
            FABRIC_ROLLOUT_SWEEP_INTERVAL_S="1",
            FABRIC_HEARTBEAT_INTERVAL_S="2",
            FABRIC_HEARTBEAT_STALE_AFTER_S="5",
            PYTHONUNBUFFERED="1",
        )

    # --- processes

    def start(self, name: str, failpoints: str = "", **environment: str) -> None:
        """Start a process (again) and wait until it serves."""
        assert name not in self._running, f"{name} runs already"
        settings = self._environment | environment
        if name in self.agents:
            settings = settings | self._agent_settings(name)
        if failpoints:
            settings["FABRIC_FAILPOINTS"] = failpoints
        before = self.log_size(name)
        with self._log_path(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._command(name),
                cwd=ROOT,
                env=settings,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that a kill takes the worker's children too
            )
        wait_until(lambda: self._serves(name, before), timeout_s=60, step_s=0.1, message=f"{name} serving")

    def kill(self, name: str) -> None:
        """SIGKILL a process and all its children."""
        process = self._running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def died(self, name: str) -> None:
        """Wait until a process has ended by itself, and forget it."""
        process = self._running[name]
        wait_until(lambda: process.poll() is not None, message=f"{name} ending")
        self.kill(name)

    def stop(self) -> None:
        """Kill whatever still runs."""
        for name in list(self._running):
            self.kill(name)

    def manage(self, *arguments: str) -> str:
        """Run a management command; return what it printed."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _command(self, name: str) -> list[str]:
        celery = [sys.executable, "-m", "celery", "-A", "fabric.celery"]
        if name == "redis":
            socket = str(self.directory / "redis.sock")
            binary = redis_binary()
            assert binary
            return [binary, "--port", "0", "--unixsocket", socket, "--dir", str(self.directory), "--save", ""]
        if name == "web":
            server = [sys.executable, "-m", "uvicorn", "fabric.asgi:application", "--host", "127.0.0.1"]
            return [*server, "--port", str(self._ports["web"]), "--no-access-log"]
        if name == "worker":
            return [*celery, "worker", "--concurrency", "2", "--without-gossip", "--without-mingle", "-l", "INFO"]
        if name == "beat":
            return [*celery, "beat", "-l", "INFO"]
        return [sys.executable, "-m", "tests.chaos.agent_without_serial"]

    def _agent_settings(self, name: str) -> dict[str, str]:
        return {
            "KVAGENT_NAME": name,
            "KVAGENT_STATE_DIR": str(self.state_dir(name)),
            "KVAGENT_RESP_PORT": str(self._ports[f"{name}-data"]),
            "KVAGENT_MANAGE_PORT": str(self._ports[name]),
            "KVAGENT_DRAM_LIMIT_BYTES": "8MiB",
            "KVAGENT_FLASH_LIMIT_BYTES": "32MiB",
            "KVAGENT_CONTROL_PLANE_URL": self.url,
            "KVAGENT_JOIN_TOKEN_FILE": str(self.directory / f"{name}.join"),
        }

    def _serves(self, name: str, log_before: int) -> bool:
        assert self._running[name].poll() is None, f"{name} ended:\n{self.log(name)[-3000:]}"
        if name == "redis":
            return (self.directory / "redis.sock").exists() and "eady to accept connections" in self.log(name)[
                log_before:
            ]
        if name == "worker":
            return "ready." in self.log(name)[log_before:]
        if name == "beat":
            return "beat: Starting" in self.log(name)[log_before:]
        path = f"{self.url}/livez" if name == "web" else f"http://127.0.0.1:{self._ports[name]}/readyz"
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(path, timeout=2).status_code == 200
        return False

    # --- what they leave behind

    def state_dir(self, agent: str) -> Path:
        """Return an agent's state directory."""
        return self.directory / "agents" / agent

    def agent_id(self, agent: str) -> str:
        """Return the id that the control plane gave an agent."""
        return str(json.loads((self.state_dir(agent) / "identity.json").read_text())["agent_id"])

    def log(self, name: str) -> str:
        """Return everything a process has logged over all its lives."""
        path = self._log_path(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def log_size(self, name: str) -> int:
        """Return the length of a log, to look only at what comes after."""
        return len(self.log(name))

    def _log_path(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def applied(self, agent: str) -> list[int]:
        """Return the generations that an agent has put in force over all its lives, from its own log."""
        return [int(generation) for _, generation in IN_FORCE.findall(self.log(agent))]

    def applied_total(self, agent: str) -> float:
        """Return `kvfabric_agent_policy_applied_total` of an agent's present life, read at its own door."""
        token = (self.state_dir(agent) / "metrics_token").read_text().strip()
        reply = httpx.get(
            f"http://127.0.0.1:{self._ports[agent]}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=5
        )
        reply.raise_for_status()
        for family in text_string_to_metric_families(reply.text):
            for sample in family.samples:
                if sample.name == "kvfabric_agent_policy_applied_total":
                    return float(sample.value)
        raise AssertionError("the agent exposes no kvfabric_agent_policy_applied_total")

    # --- the REST API

    def ask(self, method: str, path: str, body: Any = None, timeout_s: float = 20) -> httpx.Response:
        """Send a request with the admin's token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers, timeout=timeout_s)

    def get(self, path: str) -> Any:
        """GET something that must be there."""
        reply = self.ask("GET", path)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def post(self, path: str, body: Any) -> Any:
        """POST something that must succeed."""
        reply = self.ask("POST", path, body)
        assert reply.status_code in (200, 201), reply.text
        return reply.json()


class Fabric(Cluster):
    """The cluster with a pool, a policy and enrolled agents in it."""

    def __init__(self, directory: Path, agents: int) -> None:
        super().__init__(directory, agents)
        self.pool = self.policy = ""
        self._revisions = 0

    def bring_up(self) -> None:
        """Migrate, start everything, and enrol the agents through the front door."""
        (self.directory / "home" / "run").mkdir(parents=True)
        self.manage("migrate", "--verbosity", "0")
        found = re.search(r"TOKEN (\S+)", self.manage("shell", "-v", "0", "-c", MAKE_ADMIN))
        assert found
        self.token = found[1]
        for name in ("redis", "web", "worker", "beat"):
            self.start(name)
        self.pool = self.post("/pools/", {"name": "chaos"})["id"]
        self.policy = self.post("/policies/", {"name": "chaos"})["id"]
        for name in self.agents:
            minted = self.post("/join-tokens/", {"name": name, "pool": self.pool})
            (self.directory / f"{name}.join").write_text(minted["token"])
            self.start(name)
        wait_until(
            lambda: [a["state"] for a in self.get("/agents/")["results"]] == ["active"] * len(self.agents),
            timeout_s=30,
            step_s=0.3,
            message="all agents enrolled",
        )

    def new_revision(self) -> str:
        """Write a revision that differs from all before; return its id."""
        self._revisions += 1
        document = {"version": "fabric/v1", "tiers": {"dram": {"ttl_s": 1000 + self._revisions}}}
        path = f"/policies/{self.policy}/"
        etag = self.ask("GET", path).headers["ETag"]
        headers = {"Authorization": f"Bearer {self.token}", "If-Match": etag}
        reply = httpx.post(f"{self.url}/api/v1{path}revisions/", json={"document": document}, headers=headers)
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"])

    def start_rollout(self, revision: str) -> str:
        """Start a rollout to the pool; return its id."""
        return str(self.post("/rollouts/", {"pool": self.pool, "revision": revision})["id"])

    def rollout(self, rollout: str) -> dict[str, Any]:
        """Return a rollout as the API shows it."""
        return dict(self.get(f"/rollouts/{rollout}/"))

    def ended(self, rollout: str, timeout_s: float = 60) -> dict[str, Any]:
        """Wait until a rollout has ended; return it."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            shown = self.rollout(rollout)
            if shown["state"] not in ("running", "paused"):
                return shown
            time.sleep(0.3)
        raise AssertionError(f"the rollout has not ended: {json.dumps(self.rollout(rollout), indent=1)}")

    def targets(self, rollout: str) -> list[dict[str, Any]]:
        """Return a rollout's targets by agent name."""
        return list(self.get(f"/rollouts/{rollout}/targets/")["results"])

    def reached(self, name: str, point: str, since: int, timeout_s: float = 30) -> None:
        """Wait until a process says that it stands at a failpoint."""
        wait_until(
            lambda: f"failpoint {point}" in self.log(name)[since:],
            timeout_s=timeout_s,
            step_s=0.02,
            message=f"{name} at {point}",
        )


@contextlib.contextmanager
def running_fabric(agents: int) -> Iterator[Fabric]:
    """Run a whole fabric in a directory of its own; end every process of it afterwards."""
    with tempfile.TemporaryDirectory(prefix="kvf-chaos-") as directory:
        fabric = Fabric(Path(directory), agents)
        try:
            fabric.bring_up()
            yield fabric
        finally:
            fabric.stop()
