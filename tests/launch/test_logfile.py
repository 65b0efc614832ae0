"""Logs stay bounded while their writer holds them open."""

import errno
import os
from pathlib import Path

import pytest

from fabric.launch.logfile import BoundedLog


def test_large_log_is_moved_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "a.log", max_bytes=100)
    writer = log.open_for_child()
    for number in range(6):
        os.write(writer, f"{number}".encode() * 120 + b"\n")
        assert log.rotate_if_large()
        assert not log.rotate_if_large()
    os.write(writer, b"newest\n")
    assert log.path.read_bytes() == b"newest\n"
    assert log.last_lines(3) == ["newest"]
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["a.log", "a.log.1", "a.log.2"]
    assert (tmp_path / "a.log.1").read_bytes().startswith(b"5555")
    assert (tmp_path / "a.log.2").read_bytes().startswith(b"4444")
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    os.close(writer)


def test_text_since_start_leaves_out_earlier_runs(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "a.log")
    first = log.open_for_child()
    os.write(first, b"ready\n")
    os.close(first)
    second = log.open_for_child()
    assert log.text_since_start() == ""
    os.write(second, b"starting\n\n")
    assert log.last_lines(5) == ["starting"]
    os.close(second)


def test_log_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "none.log")
    assert log.last_lines(3) == []
    assert not log.rotate_if_large()


def test_full_disk_costs_old_lines_and_not_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = BoundedLog(tmp_path / "a.log", max_bytes=10)
    writer = log.open_for_child()
    os.write(writer, b"x" * 20)
    monkeypatch.setattr("shutil.copyfileobj", full)
    assert log.rotate_if_large()
    assert log.path.stat().st_size == 0
    os.close(writer)
