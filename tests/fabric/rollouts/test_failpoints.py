"""Failpoints: silent unless asked for, and a mistake in asking is an error."""

import subprocess
import sys
import time

import pytest

from fabric.core.failpoints import EXIT_STATUS, FailpointError, failpoint, parse_failpoints, set_failpoints
from tests.conftest import ROOT
from tests.support.servers import clean_environment

CODE = "from fabric.core.failpoints import failpoint; failpoint('a.b'); print('went on')"


def run(value: str | None) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(**({"FABRIC_FAILPOINTS": value} if value is not None else {}))
    return subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30, check=False
    )


def test_nothing_happens_unless_asked_for() -> None:
    failpoint("a.b")
    assert run(None).stdout == "went on\n"


@pytest.mark.parametrize(("action", "status"), [("exit", EXIT_STATUS), ("kill", -9)])
def test_process_ends_at_the_point(action: str, status: int) -> None:
    ended = run(f"x.y=raise, a.b={action}")
    assert (ended.returncode, ended.stdout) == (status, "")


def test_raise_and_sleep() -> None:
    set_failpoints("a.b=raise,c.d=sleep:0.05")
    with pytest.raises(FailpointError, match=r"a\.b"):
        failpoint("a.b")
    started = time.monotonic()
    failpoint("c.d")
    assert time.monotonic() - started >= 0.05
    failpoint("e.f")


@pytest.mark.parametrize("text", ["a.b", "=exit", "a.b=explode", "a.b=sleep", "a.b=sleep:x", "a.b=exit:3"])
def test_mistake_in_the_variable_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_failpoints(text)
    assert run(text).returncode == 1
