"""Who acts: passed to every selector and service in place of a request."""

from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    """What sort of principal acts."""

    USER = "user"
    TOKEN = "token"  # noqa: S105 a kind of principal  # noqa: S105
    AGENT = "agent"
    SYSTEM = "system"


class Role(StrEnum):
    """What a person or token may do: viewers read, operators change the fabric, admins also manage people and trust."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


_RANK = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.ADMIN: 2}


@dataclass(frozen=True, slots=True)
class Actor:
    """A principal and the role that bounds it. `id` is its UUID as text, empty for the system."""

    kind: ActorKind
    id: str
    name: str
    role: Role

    def may(self, needed: Role) -> bool:
        """Tell whether this actor's role reaches `needed`."""
        return _RANK[self.role] >= _RANK[needed]


SYSTEM = Actor(ActorKind.SYSTEM, "", "system", Role.ADMIN)
