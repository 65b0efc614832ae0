"""People of each role, and API clients that carry their tokens."""

from typing import Any
from uuid import uuid4

from rest_framework.test import APIClient, ForceAuthClientHandler

from fabric.accounts.models import User
from fabric.accounts.services import create_api_token
from fabric.core.actor import Role

_HANDLER = ForceAuthClientHandler(enforce_csrf_checks=False)


class Door(APIClient):
    """A client that shares its handler: each new one would build the whole middleware again, for every test."""

    def __init__(self, **defaults: Any) -> None:
        super().__init__(**defaults)
        self.handler = _HANDLER


def person(role: Role, name: str = "") -> User:
    """Return a person with this role and no usable password (hashing one costs more than most tests)."""
    admin = role is Role.ADMIN
    username = name or f"{role}-{uuid4().hex[:8]}"
    user = User(username=username, role=role.value, is_staff=admin, is_superuser=admin)
    user.set_unusable_password()
    user.save()
    return user


def bearer_client(user: User, role: Role | None = None) -> APIClient:
    """Return a client with a token of `user`, of their own role unless another is given."""
    made = create_api_token(actor=user.as_actor(), name="test", role=(role or Role(user.role)).value, expires_at=None)
    return client_with(made.text)


def client_with(token: str) -> Door:
    """Return a client that sends this bearer token."""
    return Door(headers={"authorization": f"Bearer {token}"})
