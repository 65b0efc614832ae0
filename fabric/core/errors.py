"""The errors that services raise; mapped once to problem bodies (API) and once to messages (pages)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One field at fault: where, why, and what would be right."""

    field: str
    problem: str
    remedy: str = ""


class FabricError(Exception):
    """Base. `title` is one sentence for a person; `problems` name fields where fields are at fault."""

    status = 400
    kind = "error"

    def __init__(self, title: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(title)
        self.title = title
        self.problems = tuple(problems)


class Invalid(FabricError):
    """Input that cannot be used as it stands."""

    status = 422
    kind = "invalid"


class NotAllowed(FabricError):
    """The actor's role or scope does not reach this."""

    status = 403
    kind = "not-allowed"


class NotFound(FabricError):
    """No such object, or none that this actor may see."""

    status = 404
    kind = "not-found"


class Conflict(FabricError):
    """The state of things forbids it now."""

    status = 409
    kind = "conflict"


class StaleVersion(FabricError):
    """Somebody changed the object since the caller read it."""

    status = 412
    kind = "stale-version"


class Blocked(FabricError):
    """It would be right, but something stands in the way; `problems` say what unblocks it."""

    status = 409
    kind = "blocked"


class TooManyAttempts(FabricError):
    """The caller must wait; `retry_after_s` says how long."""

    status = 429
    kind = "too-many-requests"

    def __init__(self, title: str, retry_after_s: int) -> None:
        super().__init__(title)
        self.retry_after_s = retry_after_s
