"""Ends process groups whose supervisor died without ending them; run as a script, so that it needs nothing of ours.

Standard input is a pipe from the supervisor: `+N` names a process group, `-N` takes it back. When the pipe ends, the
supervisor is gone: SIGTERM to every group still named, and SIGKILL to what is left after the grace period. It also
holds the supervisor's locks open, so that no other one starts before the last child has gone.
"""

import contextlib
import os
import signal
import sys
import time

POLL_S = 0.05


def bury(groups: set[int], grace_s: float) -> None:
    """End every process group in `groups`: SIGTERM, then SIGKILL after `grace_s` seconds."""
    for group in groups:
        _signal(group, signal.SIGTERM)
        _signal(group, signal.SIGCONT)  # a stopped process takes its SIGTERM only when it goes on
    until = time.monotonic() + grace_s
    while time.monotonic() < until and any(_signal(group, 0) for group in groups):
        time.sleep(POLL_S)
    for group in groups:
        _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


def main() -> None:
    """Follow the supervisor's list until its pipe ends, then bury what is still on it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    bury(groups, grace_s=float(sys.argv[1]))


if __name__ == "__main__":
    main()
