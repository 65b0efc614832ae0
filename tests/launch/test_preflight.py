"""Each thing that can stand in the way of a start is one line that names it and the remedy."""

import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from fabric.launch import preflight
from fabric.launch.processes import NAMES
from tests.support.servers import free_port


@pytest.fixture
def home(settings: Settings, tmp_path: Path) -> Path:
    """A home of this test's own, with free ports and no external Redis."""
    settings.HOME = tmp_path / "home"
    for name in ("log", "run", "secrets"):
        setattr(settings, f"{name.upper()}_DIR", settings.HOME / name)
    settings.STATIC_ROOT = settings.HOME / "static"
    settings.REDIS_SOCKET = settings.RUN_DIR / "redis.sock"
    _set(
        settings,
        redis_url="",
        port=free_port(),
        agent_resp_port=free_port(),
        agent_manage_port=free_port(),
        replay_metrics_port=free_port(),
    )
    return settings.HOME


def _set(settings: Settings, **values: Any) -> None:
    settings.ENV = settings.ENV.model_copy(update=values)


def _problems(names: tuple[str, ...] = NAMES) -> list[str]:
    found = [*preflight.problems(names), *preflight.port_problems(names)]
    assert all("\n" not in problem for problem in found)
    return found


def test_fresh_home_has_nothing_in_the_way_and_private_directories(home: Path) -> None:
    assert _problems() == []
    assert {path.name for path in home.iterdir()} == {"log", "run", "secrets", "static", "redis"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in home.iterdir())


@pytest.mark.parametrize(
    ("field", "variable"),
    [
        ("port", "FABRIC_PORT"),
        ("agent_resp_port", "FABRIC_AGENT_RESP_PORT"),
        ("agent_manage_port", "FABRIC_AGENT_MANAGE_PORT"),
        ("replay_metrics_port", "FABRIC_REPLAY_METRICS_PORT"),
    ],
)
def test_taken_port_is_named_with_its_setting(home: Path, settings: Settings, field: str, variable: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        _set(settings, **{field: port})
        (problem,) = _problems()
    assert re.match(rf"port {port} \(\w+\) is taken: stop what listens there .*, or set {variable}", problem)


def test_port_of_a_service_left_out_may_be_taken(home: Path, settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        _set(settings, replay_metrics_port=taken.getsockname()[1])
        assert _problems(("redis", "web")) == []


def test_one_port_for_two_doors_is_named(home: Path, settings: Settings) -> None:
    _set(settings, agent_resp_port=settings.ENV.port)
    assert _problems() == [
        f"FABRIC_PORT and FABRIC_AGENT_RESP_PORT are both {settings.ENV.port}: give each a port of its own"
    ]


def test_address_of_another_machine_is_named(home: Path, settings: Settings) -> None:
    _set(settings, host="192.0.2.1", behind_tls_proxy=True)
    (problem,) = _problems()
    assert "cannot be bound" in problem
    assert "FABRIC_PORT" in problem


def test_too_little_disk_is_named_with_both_figures(home: Path, settings: Settings) -> None:
    _set(settings, agent_flash_limit="1000TiB")
    (problem,) = _problems()
    assert re.search(r"has \d+ MiB free and \d+ MiB are needed: free some, lower FABRIC_AGENT_FLASH_LIMIT", problem)
    assert _problems(("redis", "web", "worker")) == []


def test_flash_file_that_is_there_already_needs_no_second_room(
    home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(settings, agent_flash_limit="1GiB")
    usage = type("Usage", (), {"free": preflight.DISK_RESERVE_BYTES + (100 << 20)})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert len(_problems()) == 1
    monkeypatch.setattr(preflight, "_allocated", lambda _: 1200 << 20)
    assert _problems() == []


@pytest.mark.parametrize("field", ["agent_dram_limit", "agent_flash_limit"])
def test_text_that_is_no_size_is_named(home: Path, settings: Settings, field: str) -> None:
    _set(settings, **{field: "plenty"})
    assert _problems() == [f"FABRIC_{field.upper()}=plenty is no size: give bytes or a text such as 256MiB"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.com", "192.0.2.7"])
def test_open_door_without_tls_is_refused(home: Path, settings: Settings, host: str) -> None:
    _set(settings, host=host)
    problems = list(preflight.problems(NAMES))
    assert len(problems) == 1
    assert problems[0].startswith(f"FABRIC_HOST={host} would serve beyond this machine without TLS: set FABRIC_TLS")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tls(home: Path, settings: Settings, host: str) -> None:
    _set(settings, host=host)
    assert list(preflight.problems(NAMES)) == []


def test_open_door_with_tls_or_behind_a_proxy_is_allowed(home: Path, settings: Settings, tmp_path: Path) -> None:
    _set(settings, host="0.0.0.0", behind_tls_proxy=True)
    assert list(preflight.problems(NAMES)) == []
    for name in ("cert", "key"):
        (tmp_path / name).write_text("PEM")
    files = {"tls_cert_file": tmp_path / "cert", "tls_key_file": tmp_path / "key"}
    _set(settings, host="0.0.0.0", behind_tls_proxy=False, **files)
    assert list(preflight.problems(NAMES)) == []


def test_half_a_tls_pair_and_an_unreadable_one_are_named(home: Path, settings: Settings, tmp_path: Path) -> None:
    _set(settings, tls_cert_file=tmp_path / "none")
    assert _problems() == ["FABRIC_TLS_CERT_FILE and FABRIC_TLS_KEY_FILE belong together: set both or neither"]
    _set(settings, tls_key_file=tmp_path / "none")
    assert [problem.partition("=")[0] for problem in _problems()] == ["FABRIC_TLS_CERT_FILE", "FABRIC_TLS_KEY_FILE"]


def test_missing_trace_file_is_named(home: Path, settings: Settings) -> None:
    _set(settings, trace="/none/trace.jsonl")
    (problem,) = _problems()
    assert problem.startswith("FABRIC_TRACE=/none/trace.jsonl is no file")
    assert _problems(("web", "redis")) == []


def test_missing_redis_is_named_unless_an_external_one_is_set(
    home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "redis_program", lambda: None)
    (problem,) = _problems()
    assert "set REDIS_URL" in problem
    _set(settings, redis_url="redis://elsewhere")
    assert _problems() == []


def test_home_that_cannot_be_made_is_named(home: Path, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings.HOME = tmp_path / "file" / "home"
    assert list(preflight._home()) == [f"{settings.HOME} cannot be made (Not a directory): choose another FABRIC_HOME"]


def test_old_python_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert next(iter(_problems())).endswith("is too old: install Python 3.11 or newer and run make run again")


def test_socket_directory_of_someone_else_is_refused(home: Path, settings: Settings, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chmod(shared, 0o777)
    settings.REDIS_SOCKET = shared / "redis.sock"
    (problem,) = _problems()
    assert problem.startswith(f"{shared} is not a private directory of this user")
    link = tmp_path / "link"
    link.symlink_to(home)
    settings.REDIS_SOCKET = link / "redis.sock"
    (problem,) = _problems()
    assert problem.startswith(f"{link} is not a private directory of this user")
