"""Named points at which a test may make this process die, wait or fail. They do nothing unless the environment says
so.

    FABRIC_FAILPOINTS="rollouts.push.after_send=exit,rollouts.sweep.before_settle=sleep:2"

Actions: `exit` ends the process at once, without any clean-up, as a crash would; `kill` sends it SIGKILL;
`sleep:SECONDS` waits; `raise` raises `FailpointError`. A mistake in the variable ends the process at start: a test
that believes it broke something and did not is worse than none. Never set it outside tests.
"""

import logging
import os
import signal
import time
from dataclasses import dataclass
from typing import Final

logger = logging.getLogger(__name__)

EXIT_STATUS: Final = 86
"""Status of a process that a failpoint ended."""
VARIABLE: Final = "FABRIC_FAILPOINTS"


class FailpointError(RuntimeError):
    """What the action `raise` raises."""


@dataclass(frozen=True, slots=True)
class _Action:
    kind: str
    seconds: float = 0.0


def parse_failpoints(text: str) -> dict[str, _Action]:
    """Return the action of each point that `text` names (`name=action`, separated by commas).

    Raises:
        ValueError: an entry without a name, or an action that does not exist.
    """
    actions: dict[str, _Action] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, action = entry.partition("=")
        kind, _, argument = action.partition(":")
        if not name or kind not in {"exit", "kill", "sleep", "raise"} or (kind == "sleep") != bool(argument):
            raise ValueError(f"{VARIABLE}: {entry!r} is not name=exit, name=kill, name=raise or name=sleep:SECONDS")
        actions[name] = _Action(kind, float(argument or 0))
    return actions


_active = parse_failpoints(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    """Carry out what the environment asks for at the point `name`; normally nothing."""
    if not _active:
        return
    action = _active.get(name)
    if action is None:
        return
    logger.warning("failpoint %s: %s", name, action.kind)
    if action.kind == "exit":
        os._exit(EXIT_STATUS)
    if action.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action.kind == "sleep":
        time.sleep(action.seconds)
    if action.kind == "raise":
        raise FailpointError(name)


def set_failpoints(text: str) -> None:
    """Replace the active failpoints, for tests inside one process; an empty text switches all of them off."""
    _active.clear()
    _active.update(parse_failpoints(text))
