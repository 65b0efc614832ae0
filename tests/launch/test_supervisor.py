"""The supervisor with real children: order, restarts, and above all that nothing survives it."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.launch.conftest import DEAF, SLEEPS, Running, command_line, is_alive
from tests.support.servers import wait_until

Supervise = Callable[..., Running]
PARENT_OF_TWO = """
import subprocess, sys, time
for _ in range(2):
    subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'])
print('up')
time.sleep(600)
"""


def _gone(processes: list[psutil.Process], timeout_s: float = 15) -> None:
    names = [command_line(process) for process in processes]
    wait_until(lambda: not any(map(is_alive, processes)), timeout_s, message=f"the end of {names}")


def test_stop_ends_every_child_and_exits_zero(supervise: Supervise) -> None:
    running = supervise({"name": "a", "code": SLEEPS}, {"name": "b", "code": SLEEPS, "after": ["a"]})
    children = running.children()
    assert len(children) == 2
    assert running.stop() == 0
    _gone(children, 1)


def test_stop_by_sigterm_and_by_closed_terminal(supervise: Supervise, tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        home = tmp_path / str(number)
        home.mkdir()
        running = supervise({"name": "a", "code": SLEEPS}, home=home)
        assert running.stop(number) == 0


def test_services_start_after_those_they_need_and_stop_before_them(supervise: Supervise, tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    def code(name: str) -> str:
        return (
            f"import signal, time\n"
            f"def note(text): open({str(trace)!r}, 'a').write(text + ' ')\n"
            f"def end(*_): note('-{name}'); raise SystemExit\n"
            f"signal.signal(signal.SIGTERM, end)\n"
            f"time.sleep(0.3); note('+{name}'); print('up', flush=True)\n"
            f"while True: time.sleep(0.05)\n"
        )

    services = [
        {"name": "c", "code": code("c"), "after": ["b"]},
        {"name": "b", "code": code("b"), "after": ["a"]},
        {"name": "a", "code": code("a")},
    ]
    running = supervise(*services)
    assert running.stop() == 0
    assert trace.read_text().split() == ["+a", "+b", "+c", "-c", "-b", "-a"]


def test_dead_child_is_reported_with_its_last_lines_and_restarted(supervise: Supervise) -> None:
    running = supervise({"name": "a", "code": SLEEPS})
    first = running.children()[0]
    first.kill()
    running.wait_said("a is back")
    assert "a ended (SIGKILL)" in running.said
    assert "    up" in running.said
    assert running.children()[0].pid != first.pid
    assert running.stop() == 0


def test_exit_code_and_traceback_are_shown(supervise: Supervise) -> None:
    failing = "import time; print('up', flush=True); time.sleep(0.5); raise ValueError('no such disk')"
    running = supervise({"name": "a", "code": failing})
    running.wait_said("a ended (exit code 1)")
    running.wait_said("ValueError: no such disk")
    running.stop()


def test_backoff_doubles_and_is_bounded(supervise: Supervise) -> None:
    running = supervise(
        {"name": "a", "code": "print('up'); import time; time.sleep(0.3)"}, FIRST_BACKOFF_S=0.1, MAX_BACKOFF_S=0.4
    )
    running.wait_said("a starts again in 0.1 s")
    running.wait_said("a starts again in 0.2 s")
    running.wait_said("a starts again in 0.4 s")
    wait_until(lambda: running.said.count("a starts again in 0.4 s") >= 2, 10)
    assert "0.8 s" not in running.said
    running.stop()


def test_backoff_starts_anew_after_healthy_time(supervise: Supervise) -> None:
    code = "print('up'); import time; time.sleep(0.8)"
    running = supervise({"name": "a", "code": code}, FIRST_BACKOFF_S=0.1, HEALTHY_AFTER_S=0.5)
    wait_until(lambda: running.said.count("a starts again in 0.1 s") >= 3, 15, message="three first back-offs")
    assert "0.2 s" not in running.said
    running.stop()


def test_child_deaf_to_sigterm_is_killed_after_its_grace(supervise: Supervise) -> None:
    running = supervise({"name": "a", "code": DEAF, "stop_grace_s": 0.5})
    children = running.children()
    assert running.stop() == 0
    assert "a did not end within 0.5 s: killed" in running.said
    _gone(children, 1)


def test_stopped_child_is_ended_too(supervise: Supervise) -> None:
    running = supervise({"name": "a", "code": SLEEPS, "stop_grace_s": 0.5})
    children = running.children()
    children[0].suspend()
    assert running.stop() == 0
    _gone(children, 1)


def test_second_signal_kills_at_once(supervise: Supervise) -> None:
    running = supervise({"name": "a", "code": DEAF, "stop_grace_s": 60})
    children = running.children()
    running.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    started = time.monotonic()
    assert running.stop() == 130
    assert time.monotonic() - started < 5
    _gone(children, 1)


def test_grandchildren_end_with_their_parent(supervise: Supervise) -> None:
    running = supervise({"name": "a", "code": PARENT_OF_TWO})
    wait_until(lambda: len(running.children()) == 3, 5, message="parent and two children")
    first = running.children()
    first[0].kill()
    running.wait_said("a is back")
    _gone(first, 2)
    wait_until(lambda: len(running.children()) == 3, 5, message="parent and two children again")
    second = running.children()
    assert running.stop() == 0
    _gone(second, 1)


@pytest.mark.parametrize("code", [SLEEPS, DEAF, PARENT_OF_TWO], ids=["willing", "deaf", "with grandchildren"])
def test_killed_supervisor_leaves_no_orphan(supervise: Supervise, code: str) -> None:
    running = supervise({"name": "a", "code": code}, UNDERTAKER_GRACE_S=0.5)
    wait_until(lambda: code != PARENT_OF_TWO or len(running.children()) == 3, 5)
    everything = psutil.Process(running.process.pid).children(recursive=True)
    running.process.kill()
    running.process.wait()
    _gone(everything, 5)


def test_killed_undertaker_is_replaced(supervise: Supervise) -> None:
    running = supervise({"name": "a", "code": DEAF}, UNDERTAKER_GRACE_S=0.5)

    def undertaker() -> psutil.Process | None:
        found = psutil.Process(running.process.pid).children()
        return next((p for p in found if "undertaker" in command_line(p)), None)

    first = undertaker()
    assert first
    first.kill()
    wait_until(lambda: (now := undertaker()) is not None and now.pid != first.pid, 5, message="a new undertaker")
    children = running.children()
    running.process.kill()
    running.process.wait()
    _gone(children, 5)


def test_second_supervisor_on_one_home_is_refused(supervise: Supervise) -> None:
    first = supervise({"name": "a", "code": SLEEPS})
    second = supervise({"name": "a", "code": SLEEPS}, {"name": "b", "code": SLEEPS}, ready=False)
    assert second.process.wait(10) == 2
    assert f"a already runs on this home under process {first.process.pid}" in second.said
    assert first.stop() == 0


def test_other_services_of_one_home_may_run_beside(supervise: Supervise, tmp_path: Path) -> None:
    supervise({"name": "a", "code": SLEEPS})
    other = supervise({"name": "b", "code": SLEEPS})
    assert other.stop() == 0


def test_lock_is_held_until_the_children_of_a_killed_supervisor_are_gone(supervise: Supervise) -> None:
    first = supervise({"name": "a", "code": DEAF}, UNDERTAKER_GRACE_S=1.5)
    children = first.children()
    first.process.kill()
    first.process.wait()
    second = supervise({"name": "a", "code": SLEEPS})
    assert not any(map(is_alive, children))
    assert second.stop() == 0


def test_essential_service_that_never_comes_up_ends_everything(supervise: Supervise) -> None:
    failing = "import sys; sys.exit('cannot read the schema')"
    running = supervise(
        {"name": "a", "code": failing, "essential": True},
        {"name": "b", "code": SLEEPS},
        ready=False,
        FIRST_BACKOFF_S=0.1,
    )
    assert running.process.wait(20) == 1
    assert "a did not get ready" in running.said
    assert "cannot read the schema" in running.said
    assert "READY" not in running.said


def test_essential_service_that_hangs_ends_everything(supervise: Supervise) -> None:
    hanging = {"name": "a", "code": "import time; time.sleep(600)", "essential": True, "ready_timeout_s": 1}
    running = supervise(hanging, ready=False)
    assert running.process.wait(20) == 1
    assert "a did not get ready" in running.said


def test_other_service_that_is_late_does_not_hold_up_the_rest(supervise: Supervise) -> None:
    running = supervise(
        {"name": "a", "code": "import time; time.sleep(600)", "ready_timeout_s": 0.5},
        {"name": "b", "code": SLEEPS, "after": ["a"]},
    )
    assert "a is not ready yet, going on without it" in running.said
    assert running.stop() == 0


def test_missing_program_is_named(supervise: Supervise) -> None:
    running = supervise({"name": "a", "command": ["/nonexistent/redis-server"]}, FIRST_BACKOFF_S=0.1)
    assert "a cannot be started: No such file or directory (/nonexistent/redis-server)" in running.said
    assert running.stop() == 0


def test_child_sees_no_blocked_signals_and_an_empty_input(supervise: Supervise) -> None:
    code = (
        "import signal, sys, time; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), repr(sys.stdin.read())); "
        "print('up'); time.sleep(600)"
    )
    running = supervise({"name": "a", "code": code})
    assert (running.home / "log" / "a.log").read_text().startswith("set() ''")
    assert running.stop() == 0


def test_logs_are_private(supervise: Supervise) -> None:
    running = supervise({"name": "a", "code": SLEEPS})
    assert os.stat(running.home / "log" / "a.log").st_mode & 0o077 == 0
    running.stop()
