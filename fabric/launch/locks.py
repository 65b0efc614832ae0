"""One supervisor per service and home: locks that the kernel gives back when their last holder is gone."""

import fcntl
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LEFTOVERS_WAIT_S = 15.0
"""How long the children of a killed supervisor may take to end; see `fabric.launch.undertaker`."""


class LockedError(Exception):
    """Another supervisor runs a service of this home: one line with its process id and the remedy."""


def hold(run_dir: Path, names: Sequence[str]) -> list[int]:
    """Lock every service in `names` for this process; return the descriptors, which keep the locks while they are open.

    Raises:
        LockedError: one of them is taken; none is kept.
    """
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    held: list[int] = []
    try:
        for name in names:
            held.append(_lock(run_dir / f"{name}.lock", name))
    except LockedError:
        for descriptor in held:
            os.close(descriptor)
        raise
    return held


def _lock(path: Path, name: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until_s = time.monotonic() + LEFTOVERS_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            holder = _holder(descriptor)
            if holder is not None and _alive(holder):
                os.close(descriptor)
                raise LockedError(
                    f"{name} already runs on this home under process {holder}: stop that one (kill {holder}), "
                    "or choose another FABRIC_HOME"
                ) from None
            if time.monotonic() > until_s:
                os.close(descriptor)
                raise LockedError(
                    f"{name} of an earlier run still holds {path}: wait until its processes have ended"
                ) from None
            time.sleep(0.1)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _holder(descriptor: int) -> int | None:
    with suppress(ValueError):
        return int(os.pread(descriptor, 32, 0))
    return None


def _alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
