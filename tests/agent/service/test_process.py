"""`python -m agent`: starts, refuses with one line, survives kills, stops cleanly."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from agent.service import main
from tests.agent.harness import MIB, ROOT, Process, payload, process
from tests.support.servers import clean_environment, free_port, wait_until

SMALL = {"KVAGENT_DRAM_LIMIT_BYTES": "8MiB", "KVAGENT_FLASH_LIMIT_BYTES": "64MiB"}
"""Under the default policy: 2 MiB of DRAM, 32 MiB of flash."""


Refusal = Callable[..., str]


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Refusal]:
    """Start an agent, in this process, that must refuse to; return its one line."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def refuse(**settings: str) -> str:
        defaults = {"STATE_DIR": str(tmp_path / "state"), "RESP_PORT": "0", "MANAGE_PORT": "0"}
        for name, value in ({f"KVAGENT_{name}": value for name, value in defaults.items()} | settings).items():
            monkeypatch.setenv(name, value)
        assert main() == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert lines[-1].startswith("agent: ")
        return lines[-1]

    yield refuse
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        yield str(holder.getsockname()[1])


def test_refuses_a_taken_data_port_with_the_remedy(refusal: Refusal, taken_port: str) -> None:
    assert "KVAGENT_RESP_PORT" in refusal(KVAGENT_RESP_PORT=taken_port)


def test_refuses_a_taken_management_port_as_a_process_with_one_last_line(tmp_path: Path, taken_port: str) -> None:
    environment = clean_environment(
        KVAGENT_STATE_DIR=str(tmp_path), KVAGENT_RESP_PORT="0", KVAGENT_MANAGE_PORT=taken_port, **SMALL
    )
    done = subprocess.run(
        [sys.executable, "-m", "agent"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("agent: ")
    assert "KVAGENT_MANAGE_PORT" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["KVAGENT_RESP_HOST", "KVAGENT_MANAGE_HOST"])
def test_refuses_a_door_beyond_this_machine_without_tls(refusal: Refusal, name: str) -> None:
    line = refusal(**{name: "0.0.0.0"})
    assert "without TLS" in line
    assert "KVAGENT_TLS_CERT_FILE" in line
    assert name in line


def test_refuses_a_disk_that_is_too_small(refusal: Refusal) -> None:
    assert "KVAGENT_FLASH_LIMIT_BYTES" in refusal(KVAGENT_FLASH_LIMIT_BYTES="900TiB")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KVAGENT_RESP_PORT", "99999"), ("KVAGENT_DRAM_LIMIT_BYTES", "lots"), ("KVAGENT_FLASH_SLOT_BYTES", "5000"),
        ("KVAGENT_NAME", "a b"), ("KVAGENT_IO_THREADS", "0"), ("KVAGENT_FLASH_IO", "maybe"),
    ],
)  # fmt: skip
def test_refuses_a_wrong_setting_by_its_name(refusal: Refusal, name: str, value: str) -> None:
    assert name in refusal(**{name: value})


def test_refuses_an_unusable_password_file(refusal: Refusal, tmp_path: Path) -> None:
    assert "KVAGENT_RESP_PASSWORD_FILE" in refusal(KVAGENT_RESP_PASSWORD_FILE=str(tmp_path / "missing"))
    (tmp_path / "empty").write_text("\n")
    assert "is empty" in refusal(KVAGENT_RESP_PASSWORD_FILE=str(tmp_path / "empty"))


def test_first_start_makes_a_private_state_directory_and_a_password_that_stays(tmp_path: Path) -> None:
    with process(tmp_path, **SMALL) as agent:
        password = agent.password
        assert len(password) >= 40
        assert agent.state_dir.stat().st_mode & 0o777 == 0o700
        for file in agent.state_dir.iterdir():
            assert file.stat().st_mode & 0o777 == 0o600, file
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=agent.port).ping()
        assert password not in agent.log()
        assert agent.stop() == 0
        agent.start()
        assert agent.password == password


def test_password_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    agent = Process(
        tmp_path / "state", free_port(), free_port(), SMALL | {"KVAGENT_RESP_PASSWORD_FILE": str(tmp_path / "secret")}
    )
    agent.state_dir.mkdir()
    (agent.state_dir / "resp_password").write_text("from a file")
    agent.start()
    try:
        assert agent.client().ping()
        assert "from a file" not in agent.log()
    finally:
        assert agent.stop() == 0


def test_kill_and_restart_keep_what_was_on_flash(tmp_path: Path) -> None:
    with process(tmp_path, **SMALL) as agent:
        blocks = {f"b{n}": payload(n, 200_000) for n in range(100)}
        with agent.client() as client:
            for key, data in blocks.items():
                client.set(key, data)
            client.delete("b3")
            client.set("b4", b"replaced")
            client.expire("b5", 1)
            wait_until(lambda: client.info("memory")["flash_pending_bytes"] == 0, message="all is on flash")
            in_flash = client.info("memory")["flash_used_bytes"] // 200_000
        agent.kill()
        time.sleep(1.0)
        agent.start()
        with agent.client() as client:
            found = dict(zip(blocks, client.mget(list(blocks)), strict=True))
            assert all(data in (None, blocks[key]) for key, data in found.items() if key != "b4")
            assert found["b3"] is None
            assert found["b5"] is None
            assert found["b4"] in (None, b"replaced")
            assert sum(data is not None for data in found.values()) >= in_flash - 2
            assert client.info("stats")["corrupt_blocks"] == 0


def test_clean_stop_finishes_what_was_on_its_way_to_flash(tmp_path: Path) -> None:
    with process(tmp_path, **SMALL) as agent:
        with agent.client() as client:
            for number in range(100):
                client.set(f"b{number}", payload(number, 200_000))
            stored = client.info("memory")["flash_used_bytes"]
        assert agent.stop() == 0
        assert "stopped" in agent.log()
        assert "Traceback" not in agent.log()
        agent.start()
        with agent.client() as client:
            assert client.info("memory")["flash_used_bytes"] == stored


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_within_the_drain_time_although_a_client_hangs(tmp_path: Path, number: int) -> None:
    with process(tmp_path, KVAGENT_DRAIN_TIMEOUT_S="0.5", **SMALL) as agent:
        with agent.client() as client:
            client.set("big", bytes(MIB))
        hanging = socket.create_connection(("127.0.0.1", agent.port))
        hanging.sendall(
            b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%b\r\n*3\r\n$3\r\nSET\r\n" % (len(agent.password), agent.password.encode())
        )
        time.sleep(0.1)
        assert agent.child is not None
        began = time.monotonic()
        agent.child.send_signal(number)
        assert agent.child.wait(10) == 0
        assert time.monotonic() - began < 4
        hanging.close()


def test_second_agent_on_the_same_state_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    with process(tmp_path, **SMALL) as agent:
        assert "in use" in refusal(KVAGENT_STATE_DIR=str(agent.state_dir), **SMALL)
        assert agent.client().ping()


def test_damaged_flash_file_costs_blocks_and_nothing_else(tmp_path: Path) -> None:
    with process(tmp_path, KVAGENT_FLASH_IO="buffered", **SMALL) as agent:
        blocks = {f"b{n}": payload(n, 200_000) for n in range(60)}
        with agent.client() as client:
            for key, data in blocks.items():
                client.set(key, data)
        assert agent.stop() == 0
        path = agent.state_dir / "flash.kvf"
        with path.open("r+b") as file:
            for at in range(1 << 20, path.stat().st_size, 700_001):
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 0xFF]))
        agent.start()
        with agent.client() as client:
            found = client.mget(list(blocks))
            assert all(data in (None, blocks[key]) for key, data in zip(blocks, found, strict=True))
            assert any(data is not None for data in found)
            assert client.info("stats")["corrupt_blocks"] > 0


@pytest.mark.slow
def test_kills_under_load_never_give_a_wrong_byte(tmp_path: Path) -> None:
    """Writers and readers run on while the agent is killed and started again, six times."""
    with process(tmp_path, **SMALL) as agent:
        wrong: list[str] = []
        stop = threading.Event()
        latest: dict[str, int] = {}

        def write() -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                key = f"k{turn % 60}"
                try:
                    with agent.client() as client:
                        for _ in range(20):
                            turn += 1
                            key = f"k{turn % 60}"
                            latest[key] = -turn
                            client.set(key, turn.to_bytes(8, "big") + payload(f"{key}{turn}", 120_000))
                            latest[key] = turn
                except (redis.RedisError, OSError):
                    time.sleep(0.02)

        def read() -> None:
            while not stop.is_set():
                try:
                    with agent.client() as client:
                        for number in range(60):
                            key = f"k{number}"
                            data = client.get(key)
                            if data is not None:
                                turn = int.from_bytes(data[:8], "big")
                                if data[8:] != payload(f"{key}{turn}", 120_000):
                                    wrong.append(key)
                except (redis.RedisError, OSError):
                    time.sleep(0.02)

        threads = [threading.Thread(target=write), threading.Thread(target=read), threading.Thread(target=read)]
        for thread in threads:
            thread.start()
        for _ in range(6):
            time.sleep(0.4)
            agent.kill()
            agent.start()
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong
        assert os.path.exists(agent.state_dir / "flash.kvf")
        wait_until(lambda: agent.client().ping())
