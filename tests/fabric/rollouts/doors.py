"""The REST API as a program uses it: with a token of its own."""

import json
import uuid
from typing import Any

from django.test import Client

from fabric.accounts.models import User
from fabric.accounts.services import create_api_token
from fabric.core.actor import Actor, ActorKind, Role


class Door:
    """A client of `/api/v1` with the token of a new person in one role (None: without any credential)."""

    def __init__(self, role: Role | None = Role.OPERATOR) -> None:
        self._client = Client(raise_request_exception=True)
        self._headers: dict[str, str] = {}
        if role is not None:
            name = f"{role.value}-{uuid.uuid4().hex[:8]}"
            user = User.objects.create(username=name, role=role.value)
            actor = Actor(ActorKind.USER, str(user.pk), name, role)
            minted = create_api_token(actor=actor, name="test", role=role.value, expires_at=None)
            self._headers["Authorization"] = f"Bearer {minted.text}"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request; return the response. Header names are given with underscores (`If_Match`)."""
        sent = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        data = json.dumps(body) if body is not None else ""
        return self._client.generic(method, f"/api/v1{path}", data, content_type="application/json", headers=sent)

    def get(self, path: str) -> Any:
        """GET."""
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """POST."""
        return self.ask("POST", path, {} if body is None else body, **headers)
