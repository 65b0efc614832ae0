"""What an operator should know, each with the moment since when it has been so."""

import time
from typing import Literal

from agent.protocol import Condition

CLOCK_SKEW = "clock_skew"
CONTROL_PLANE_UNREACHABLE = "control_plane_unreachable"
IDENTITY_REFUSED = "identity_refused"
POLICY_REFUSED = "policy_refused"

Truth = Literal["true", "false", "unknown"]
MAX_MESSAGE_CHARS = 1000


class Conditions:
    """The management side's own conditions, by type. Those of the data plane come from the store."""

    def __init__(self) -> None:
        now_s = time.time()
        self._by_type = {
            kind: Condition(type=kind, status="unknown", reason="starting", since_s=now_s)
            for kind in (CLOCK_SKEW, CONTROL_PLANE_UNREACHABLE, IDENTITY_REFUSED, POLICY_REFUSED)
        }

    def set(self, kind: str, status: Truth, reason: str, message: str = "") -> bool:
        """Record a condition; `since_s` moves only when the status changes. Tells whether status or reason changed."""
        old = self._by_type[kind]
        since_s = old.since_s if old.status == status else time.time()
        self._by_type[kind] = Condition(
            type=kind, status=status, reason=reason, message=message[:MAX_MESSAGE_CHARS], since_s=since_s
        )
        return (old.status, old.reason) != (status, reason)

    def get(self, kind: str) -> Condition:
        """Return the condition of this type."""
        return self._by_type[kind]

    def all(self) -> list[Condition]:
        """Return all conditions, those that hold and those that do not."""
        return list(self._by_type.values())
