"""`python -m agent` as an operator starts it: both doors, the peer that plays the control plane, real kills."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis.asyncio as redis
from prometheus_client.parser import text_string_to_metric_families

from agent.protocol import ApplyReply
from tests.agent.manage.control_plane import ControlPlane, eventually, policy, serving
from tests.conftest import ROOT
from tests.support.servers import clean_environment, end, free_port

BLOCK_BYTES = 65536


@dataclass
class Process:
    """A running agent process and how to reach its two doors."""

    process: subprocess.Popen[bytes]
    state_dir: Path
    resp_port: int
    manage_port: int
    log: Path

    def client(self) -> redis.Redis:
        """Return an ordinary Redis client of the data door."""
        password = (self.state_dir / "resp_password").read_text().strip()
        return redis.Redis(host="127.0.0.1", port=self.resp_port, password=password)

    async def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Return status and body of a read at the management door; 0 while it is closed."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self.manage_port}{path}", headers=headers) as response,
            ):
                return response.status, await response.text()
        except aiohttp.ClientConnectionError:
            return 0, ""

    async def push(self, body: str) -> tuple[int, ApplyReply]:
        """Push a desired policy."""
        headers = {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.manage_port}/manage/v1/desired"
        async with aiohttp.ClientSession() as session, session.put(url, data=body, headers=headers) as response:
            return response.status, ApplyReply.from_body(await response.json(content_type=None))

    async def ready(self) -> None:
        """Wait until blocks are served."""
        for _ in range(400):
            assert self.process.poll() is None, self.log.read_text()
            if (await self.get("/readyz"))[0] == 200:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not ready:\n{self.log.read_text()}")


@asynccontextmanager
async def agent_process(folder: Path, name: str = "state", **settings: str) -> AsyncIterator[Process]:
    """Run `python -m agent` on free ports while the context lasts."""
    ports = (free_port(), free_port())
    log = folder / f"{name}.log"
    environment = clean_environment(
        KVAGENT_STATE_DIR=str(folder / name),
        KVAGENT_RESP_PORT=str(ports[0]),
        KVAGENT_MANAGE_PORT=str(ports[1]),
        KVAGENT_DRAM_LIMIT_BYTES="8MiB",
        KVAGENT_FLASH_LIMIT_BYTES="32MiB",
        PYTHONUNBUFFERED="1",
        **settings,
    )
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "agent"], cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    running = Process(process, folder / name, ports[0], ports[1], log)
    try:
        await running.ready()
        yield running
    finally:
        await asyncio.to_thread(end, process)


async def _metrics(agent: Process, token: str) -> dict[tuple[str, ...], float]:
    code, text = await agent.get("/metrics", token)
    assert code == 200
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def _write_and_read(client: redis.Redis, count: int) -> int:
    """Write blocks, read them all back, verify each; return how many were still there."""
    payloads = {f"block-{index}": os.urandom(16) * (BLOCK_BYTES // 16) for index in range(count)}
    for key, payload in payloads.items():
        await client.set(key, payload)
    found = await client.mget(list(payloads))
    assert all(value in (None, payloads[key]) for key, value in zip(payloads, found, strict=True))
    return sum(value is not None for value in found)


async def test_agent_from_first_start_to_last_good_policy(control_plane: ControlPlane, tmp_path: Path) -> None:
    token_file = tmp_path / "join-token"
    async with serving(control_plane) as port:
        settings = {
            "KVAGENT_CONTROL_PLANE_URL": f"http://127.0.0.1:{port}",
            "KVAGENT_JOIN_TOKEN_FILE": str(token_file),
        }
        async with agent_process(tmp_path, **settings) as agent:
            # Before it is enrolled it serves under its own policy.
            assert (await agent.get("/readyz"))[1] == "ok enrolled=false\n"
            async with agent.client() as client:
                present = await _write_and_read(client, 100)
                assert present > 0
                token_file.write_text(control_plane.new_token())
                await eventually(lambda: control_plane.beats, "the first heartbeat")
                assert not token_file.exists()
                # What the control plane reads with a grant is what the client has seen.
                values = await _metrics(agent, control_plane.grant())
                hits = sum(values["kvfabric_agent_lookup_blocks_total", tier] for tier in ("dram", "flash"))
                assert hits == present
                assert values["kvfabric_agent_lookup_blocks_total", "miss"] == 100 - present
                assert values["kvfabric_agent_set_blocks_total",] == 100
                assert values["kvfabric_agent_info", *sorted((control_plane.member().agent_id, "0.1.0", "flash"))] == 1
                # A pushed policy bites without a restart.
                before = values["kvfabric_agent_capacity_bytes", "dram"]
                code, reply = await agent.push(control_plane.seal(7, policy(0.03125)).model_dump_json())
                assert (code, reply.observed_generation) == (200, 7)
                values = await _metrics(agent, control_plane.grant())
                assert values["kvfabric_agent_capacity_bytes", "dram"] == (8 << 20) // 32 < before
                assert values["kvfabric_agent_policy_generation",] == 7
                await _until_below(agent, control_plane.grant(), (8 << 20) // 32)
                assert await client.mget([f"block-{i}" for i in range(100)])
            agent.process.kill()
            agent.process.wait(10)
        # After a kill it is the same agent under the same policy, with a new boot id.
        boots = {beat.status.boot_id for beat in control_plane.beats}
        async with agent_process(tmp_path, **settings) as agent:
            await eventually(lambda: control_plane.beats[-1].status.boot_id not in boots, "a beat of the new process")
            beat = control_plane.beats[-1]
            assert (beat.status.observed_generation, beat.status.applied_digest) == (7, policy(0.03125).digest())
            assert beat.status.agent_id == control_plane.member().agent_id
            assert control_plane.calls.count("/agent/v1/enroll") == 1
            agent.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(agent.process.wait, 15) == 0


async def _until_below(agent: Process, token: str, limit_bytes: int) -> None:
    for _ in range(200):
        values = await _metrics(agent, token)
        if values["kvfabric_agent_stored_bytes", "dram"] <= limit_bytes:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the DRAM tier did not shrink to its policy")


async def test_agent_under_a_flood_of_blocks_still_answers_its_management_door(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with serving(control_plane) as port:
        settings = {
            "KVAGENT_CONTROL_PLANE_URL": f"http://127.0.0.1:{port}",
            "KVAGENT_JOIN_TOKEN": control_plane.new_token(),
        }
        async with agent_process(tmp_path, **settings) as agent:
            await eventually(lambda: control_plane.beats, "the first heartbeat")
            stop = asyncio.Event()

            async def flood(number: int) -> None:
                payload = os.urandom(BLOCK_BYTES)
                async with agent.client() as client:
                    index = 0
                    while not stop.is_set():
                        await client.set(f"{number}-{index % 500}", payload)
                        await client.get(f"{number}-{(index - 100) % 500}")
                        index += 1

            floods = [asyncio.create_task(flood(number)) for number in range(4)]
            beats = len(control_plane.beats)
            for generation in range(1, 11):
                code, _ = await agent.push(control_plane.seal(generation, policy(generation / 20)).model_dump_json())
                assert code == 200
                await _metrics(agent, control_plane.grant())
                await asyncio.sleep(0.1)
            stop.set()
            await asyncio.gather(*floods)
            assert len(control_plane.beats) - beats >= 5


async def test_copied_agent_locks_both(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with serving(control_plane) as port:
        settings = {
            "KVAGENT_CONTROL_PLANE_URL": f"http://127.0.0.1:{port}",
            "KVAGENT_JOIN_TOKEN": control_plane.new_token(),
        }
        async with agent_process(tmp_path, "original", **settings):
            await eventually(lambda: control_plane.beats, "the first heartbeat")
            shutil.copytree(tmp_path / "original", tmp_path / "copy", ignore=shutil.ignore_patterns("flash.kvf"))
            control_plane.member().tokens.clear()  # both must prove the key; the second to come has an old sequence
            async with agent_process(tmp_path, "copy", **settings) as copy:
                await eventually(lambda: control_plane.member().state == "locked", "the lock", timeout_s=25)
                assert (await copy.get("/readyz"))[0] == 200


def _secrets_of(folder: Path) -> list[str]:
    identity: dict[str, Any] = json.loads((folder / "identity.json").read_text())
    key = (folder / "agent.key").read_text().splitlines()[1]
    return [
        identity["access_token"],
        (folder / "metrics_token").read_text().strip(),
        (folder / "resp_password").read_text().strip(),
        key,
    ]


async def test_secrets_are_private_files_and_in_no_log_and_no_answer(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    join_token = control_plane.new_token()
    async with serving(control_plane) as port:
        settings = {"KVAGENT_CONTROL_PLANE_URL": f"http://127.0.0.1:{port}", "KVAGENT_JOIN_TOKEN": join_token}
        async with agent_process(tmp_path, KVAGENT_LOG_LEVEL="debug", **settings) as agent:
            await eventually(lambda: len(control_plane.beats) > 2, "heartbeats")
            answers = [(await agent.get(path, control_plane.grant()))[1] for path in ("/metrics", "/manage/v1/status")]
            answers.append((await agent.get("/manage/v1/inventory", control_plane.grant()))[1])
            files = [path for path in agent.state_dir.iterdir() if path.is_file()]
            assert {path.name: oct(path.stat().st_mode & 0o777) for path in files} == {
                path.name: "0o600" for path in files
            }
            assert oct(agent.state_dir.stat().st_mode & 0o777) == "0o700"
            text = agent.log.read_text() + "".join(answers)
            for secret in [join_token.partition(".")[2], *_secrets_of(agent.state_dir)]:
                assert secret not in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"KVAGENT_MANAGE_HOST": "0.0.0.0"}, "KVAGENT_TLS_CERT_FILE"),
        ({"KVAGENT_CONTROL_PLANE_URL": "http://fabric.example:8400"}, "https://"),
        ({"KVAGENT_CONTROL_PLANE_URL": "nonsense"}, "KVAGENT_CONTROL_PLANE_URL"),
        (
            {"KVAGENT_CONTROL_PLANE_URL": "https://a", "KVAGENT_CONTROL_PLANE_CA_FILE": "absent.pem"},
            "KVAGENT_CONTROL_PLANE_CA_FILE",
        ),
    ],
)
def test_setting_that_cannot_hold_is_one_line_and_a_nonzero_exit(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    environment = clean_environment(
        KVAGENT_STATE_DIR=str(tmp_path / "state"),
        KVAGENT_RESP_PORT=str(free_port()),
        KVAGENT_MANAGE_PORT=str(free_port()),
        KVAGENT_FLASH_LIMIT_BYTES="32MiB",
        **settings,
    )
    done = subprocess.run(
        [sys.executable, "-m", "agent"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-2:]
    assert any(line.startswith("agent: ") and words in line for line in last), done.stderr
    assert "Traceback" not in done.stderr
