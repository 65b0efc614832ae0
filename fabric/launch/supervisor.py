"""Runs services together: in order, watched, restarted with back-off, ended together. Knows nothing of Django.

One thread, one loop. Signals are blocked and taken from the kernel's queue (`sigtimedwait`), so that none interrupts
a decision half-way; the loop wakes at each of them and every `TICK_S` besides.
"""

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fabric.launch.child import Child, Service, State, Undertaker, adopt_orphans
from fabric.launch.logfile import BoundedLog

TICK_S = 0.2
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
HEALTHY_AFTER_S = 30.0
MAX_FIRST_FAILURES = 3
"""Ends of a service that never got ready, after which nobody waits for it any more."""
LAST_LINES = 8
UNDERTAKER_GRACE_S = 5.0
STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
WAKE_SIGNALS = STOP_SIGNALS | {signal.SIGCHLD}


class Supervisor:
    """The services of one home, from start to stop."""

    def __init__(
        self,
        services: Sequence[Service],
        log_dir: Path,
        say: Callable[[str], None],
        *,
        locks: Sequence[int] = (),
    ) -> None:
        """`say` takes one line for the operator; `locks` are descriptors that must outlive the last child."""
        self._children = [Child(service, BoundedLog(log_dir / f"{service.name}.log")) for service in services]
        names = {child.name for child in self._children}
        self._after = {c.name: [name for name in c.service.after if name in names] for c in self._children}
        self._say = say
        self._locks = list(locks)
        self._undertaker: Undertaker | None = None

    def run(self, on_ready: Callable[[], None]) -> int:
        """Start everything, call `on_ready` once all are up, stay until a signal, stop everything; return an exit code.

        0: stopped as asked. 1: an essential service did not come up. 130: a second signal cut the stopping short.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, WAKE_SIGNALS)
        adopt_orphans()
        self._undertaker = Undertaker(UNDERTAKER_GRACE_S, self._locks)
        try:
            return self._run(on_ready)
        finally:
            self._kill_all()
            self._undertaker.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _run(self, on_ready: Callable[[], None]) -> int:
        announced = False
        while not self._stop_asked(TICK_S):
            now_s = time.monotonic()
            self._tick(now_s)
            if announced:
                continue
            if failed := self._settle_late(now_s):
                self._say(f"{failed.name} did not get ready. Its last lines (whole log: {failed.log.path}):")
                self._say_last_lines(failed)
                return self._stop(1)
            if all(child.was_ready or child.told_late for child in self._children):
                announced = True
                on_ready()
        return self._stop()

    def _stop_asked(self, timeout_s: float) -> bool:
        """Wait for a signal, at most `timeout_s`; tell whether it asks to stop."""
        taken = signal.sigtimedwait(WAKE_SIGNALS, timeout_s)
        return taken is not None and taken.si_signo in STOP_SIGNALS

    # --- running -----------------------------------------------------------------------------------------------------

    def _tick(self, now_s: float) -> None:
        if self._undertaker and not self._undertaker.alive:
            self._replace_undertaker()
        for child in self._children:
            if (code := child.exit_code()) is not None:
                self._ended(child, code, now_s)
            if child.state is State.STARTING:
                self._look_whether_ready(child)
            elif self._due(child, now_s):
                self._spawn(child, now_s)
            elif child.state is State.READY and now_s - child.started_at_s >= HEALTHY_AFTER_S:
                child.failures = 0
            child.log.rotate_if_large()

    def _due(self, child: Child, now_s: float) -> bool:
        if child.state is State.BACKING_OFF:
            return now_s >= child.retry_at_s
        if child.state is not State.WAITING:
            return False
        by_name = {other.name: other for other in self._children}
        return all(by_name[name].was_ready or by_name[name].told_late for name in self._after[child.name])

    def _spawn(self, child: Child, now_s: float) -> None:
        child.state, child.started_at_s = State.STARTING, now_s
        child.first_started_at_s = child.first_started_at_s or now_s
        try:
            group = child.spawn()
        except OSError as error:
            self._say(f"{child.name} cannot be started: {error.strerror} ({child.service.command[0]})")
            self._back_off(child, now_s)
            return
        if self._undertaker:
            self._undertaker.watch(group)

    def _look_whether_ready(self, child: Child) -> None:
        if child.service.ready(child.log):
            if child.was_ready:
                self._say(f"{child.name} is back (process {child.group})")
            child.state, child.was_ready = State.READY, True

    def _ended(self, child: Child, code: int, now_s: float) -> None:
        self._say(f"{child.name} ended ({_reason(code)}). Its last lines (whole log: {child.log.path}):")
        self._say_last_lines(child)
        if self._undertaker and child.group:
            self._undertaker.release(child.group)
        if now_s - child.started_at_s >= HEALTHY_AFTER_S:
            child.failures = 0
        self._back_off(child, now_s)

    def _back_off(self, child: Child, now_s: float) -> None:
        delay_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2**child.failures)
        child.failures += 1
        child.state, child.retry_at_s = State.BACKING_OFF, now_s + delay_s
        self._say(f"{child.name} starts again in {delay_s:g} s")

    def _late(self, child: Child, now_s: float) -> bool:
        """Tell whether a child that never got ready has had its chance."""
        if child.was_ready or child.state is State.WAITING:
            return False
        return child.failures >= MAX_FIRST_FAILURES or now_s - child.first_started_at_s > child.service.ready_timeout_s

    def _settle_late(self, now_s: float) -> Child | None:
        """Tell of services that are late for the first time; return an essential one: without it nothing goes on."""
        for child in self._children:
            if not child.told_late and self._late(child, now_s):
                if child.service.essential:
                    return child
                child.told_late = True
                self._say(f"{child.name} is not ready yet, going on without it: see {child.log.path}")
        return None

    # --- stopping ----------------------------------------------------------------------------------------------------

    def _stop(self, code: int = 0) -> int:
        """End everything, those that need others first; return `code`, or 130 when a second signal asked for haste."""
        for level in range(max(map(self._level, self._children), default=0), -1, -1):
            children = [child for child in self._children if self._level(child) == level]
            for child in children:
                child.send(signal.SIGTERM)
                child.send(signal.SIGCONT)
            if not self._wait_for(children):
                self._kill_all()
                return 130
        return code

    def _wait_for(self, children: list[Child]) -> bool:
        """Wait until all have ended, with SIGKILL after their grace; return False when a signal asked for haste."""
        started_at_s = time.monotonic()
        running = list(children)
        while running := [child for child in running if not self._has_ended(child)]:
            for child in running:
                if child.runs and time.monotonic() - started_at_s > child.service.stop_grace_s:
                    self._say(f"{child.name} did not end within {child.service.stop_grace_s:g} s: killed")
                    child.send(signal.SIGKILL)
            if self._stop_asked(TICK_S):
                return False
        return True

    def _has_ended(self, child: Child) -> bool:
        if child.exit_code() is None and child.runs:
            return False
        if self._undertaker and child.group:
            self._undertaker.release(child.group)
        child.state = State.STOPPED
        return True

    def _kill_all(self) -> None:
        for child in self._children:
            child.send(signal.SIGKILL)
        until_s = time.monotonic() + UNDERTAKER_GRACE_S
        running = list(self._children)
        while time.monotonic() < until_s and running:
            running = [child for child in running if not self._has_ended(child)]
            time.sleep(0.01)

    def _level(self, child: Child) -> int:
        """Return 0 for a service that needs none, else one more than the highest of those it needs."""
        by_name = {other.name: other for other in self._children}
        return max((1 + self._level(by_name[name]) for name in self._after[child.name]), default=0)

    # --- words -------------------------------------------------------------------------------------------------------

    def _say_last_lines(self, child: Child) -> None:
        for line in child.log.last_lines(LAST_LINES):
            self._say(f"    {line}")

    def _replace_undertaker(self) -> None:
        try:
            self._undertaker = Undertaker(UNDERTAKER_GRACE_S, self._locks)
        except OSError:
            return  # no process to be had now: the next tick tries again
        for child in self._children:
            if child.runs and child.group:
                self._undertaker.watch(child.group)


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
