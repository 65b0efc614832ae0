"""`python -m bench.replay` as a process: settings, the metrics door, a clean end."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.bench.conftest import RunningAgent, series
from tests.bench.replay.conftest import request, write_requests
from tests.conftest import ROOT
from tests.support.servers import clean_environment, end, free_port, wait_until

TOKEN = "a-token-of-thirty-two-characters"


class Program:
    """A replay process with its own port, token and output."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.port = free_port()
        token = home / "token"
        token.write_text(TOKEN)
        environment = {
            "FABRIC_HOME": str(home),
            "FABRIC_REPLAY_METRICS_PORT": str(self.port),
            "FABRIC_REPLAY_METRICS_TOKEN_FILE": str(token),
            "FABRIC_REPLAY_PAYLOAD_BYTES": "256",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.replay"],
            cwd=ROOT,
            env=clean_environment(**(environment | settings)),
            stderr=subprocess.PIPE,
            text=True,
        )

    def get(self, authorization: str = f"Bearer {TOKEN}") -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}/metrics", headers={"Authorization": authorization}, timeout=5)

    def counted(self, name: str) -> float:
        try:
            return series(self.get().text).get(name, 0.0)
        except httpx.HTTPError:
            return 0.0

    def failure(self) -> tuple[int, str]:
        """Return exit code and what it said, once it has ended by itself."""
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said.strip()


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start replay programs; all end with the test."""
    started: list[Program] = []

    def start(**settings: str) -> Program:
        started.append(Program(tmp_path, **settings))
        return started[-1]

    yield start
    for program in started:
        end(program.process)
        if program.process.stderr:
            program.process.stderr.close()


def test_trace_is_played_against_an_agent_under_vllms_names(
    replay: Callable[..., Program], start_agent: Callable[..., RunningAgent], tmp_path: Path
) -> None:
    agent = start_agent(flash_limit_bytes=0)
    trace = write_requests(tmp_path / "t.jsonl", *(request(1, number, at_ms=number * 100.0) for number in range(2, 12)))
    program = replay(
        FABRIC_TRACE=str(trace),
        FABRIC_REPLAY_SPEEDUP="10",
        FABRIC_REPLAY_TARGETS=agent.url,
        FABRIC_REPLAY_PASSWORD_FILE=str(agent.password_file),
        FABRIC_REPLAY_MODEL="llama-3.1-8b",
    )
    wait_until(lambda: program.counted("kvfabric_replay_requests_total") > 15, timeout_s=20, message="a second round")
    page = program.get()
    assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    shown = series(page.text)
    assert shown['kvfabric_replay_info{model="llama-3.1-8b",payload_bytes="256",trace="t"}'] == 1
    assert shown["kvfabric_replay_verified_blocks_total"] > 0
    assert shown["kvfabric_replay_wrong_blocks_total"] == 0
    assert all(value == 0 for name, value in shown.items() if name.startswith("kvfabric_replay_errors_total"))
    assert shown['vllm:time_to_first_token_seconds_bucket{le="0.25",model_name="llama-3.1-8b"}'] > 0
    assert not any(name.partition("{")[0].endswith("_created") for name in shown)
    program.process.send_signal(signal.SIGTERM)
    assert program.process.wait(10) == 0


def test_metrics_need_the_token(replay: Callable[..., Program]) -> None:
    program = replay(FABRIC_REPLAY_TARGETS=f"redis://127.0.0.1:{free_port()}")
    wait_until(lambda: program.counted("kvfabric_replay_requests_total") > 0, timeout_s=20)
    for header in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
        assert program.get(header).status_code == 401, header
    assert program.counted('kvfabric_replay_errors_total{kind="connection"}') > 0, "a dead agent does not end it"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"FABRIC_TRACE": "generator:none"}, "FABRIC_TRACE=generator:none names no generator"),
        ({"FABRIC_TRACE": "/none.jsonl"}, "FABRIC_TRACE=/none.jsonl is no file"),
        ({"FABRIC_REPLAY_SPEEDUP": "fast"}, "FABRIC_REPLAY_SPEEDUP: "),
        ({"FABRIC_REPLAY_TARGETS": "http://x"}, "FABRIC_REPLAY_TARGETS: give redis://host:port"),
        ({"FABRIC_REPLAY_MODEL": "gpt-0"}, "FABRIC_REPLAY_MODEL: not a known model; give one of"),
        ({"FABRIC_REPLAY_METRICS_TOKEN_FILE": "/none"}, "FABRIC_REPLAY_METRICS_TOKEN_FILE: /none: No such file"),
    ],
)
def test_bad_setting_is_one_line_and_exit_code_two(
    replay: Callable[..., Program], settings: dict[str, str], said: str
) -> None:
    code, text = replay(**settings).failure()
    assert code == 2
    assert text.startswith(said)
    assert "\n" not in text


def test_bad_line_in_the_trace_ends_it_and_is_named(replay: Callable[..., Program], tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("{}\n")
    code, text = replay(FABRIC_TRACE=str(tmp_path / "t.jsonl")).failure()
    assert code == 2
    assert "t.jsonl: line 1, field timestamp: the field is missing" in text


@pytest.mark.shared
@pytest.mark.parametrize("name", ["mooncake_conversation", "mooncake_synthetic", "lmcache_agents_c64"])
def test_real_traces_are_played_without_errors(
    replay: Callable[..., Program], agent: RunningAgent, shared_dir: Path, name: str
) -> None:
    program = replay(
        FABRIC_TRACE=str(shared_dir / "traces" / f"{name}.jsonl.gz"),
        FABRIC_REPLAY_SPEEDUP="1000",
        FABRIC_REPLAY_TARGETS=agent.url,
        FABRIC_REPLAY_PASSWORD_FILE=str(agent.password_file),
    )
    wait_until(lambda: program.counted("kvfabric_replay_requests_total") >= 200, timeout_s=20, message="200 requests")
    shown = series(program.get().text)
    assert shown[f'kvfabric_replay_info{{model="llama-3.1-70b",payload_bytes="256",trace="{name}"}}'] == 1
    assert shown["kvfabric_replay_verified_blocks_total"] > 0
    assert shown["kvfabric_replay_wrong_blocks_total"] == 0
    assert all(value == 0 for series_name, value in shown.items() if "_errors_total" in series_name)
