"""How an agent proves itself to its own endpoints, and nowhere else."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from fabric.agents.domain import ACCESS_TOKEN_PREFIX
from fabric.agents.models import AccessToken, Agent
from fabric.agents.selectors import access_token_by_key
from fabric.agents.services import agent_actor
from fabric.core.actor import Actor
from fabric.core.crypto import split_token, verify_token

if TYPE_CHECKING:
    from rest_framework.views import APIView


@dataclass(frozen=True, slots=True)
class AgentPrincipal:
    """An agent as the user of a request. It is pinned to its own id: whatever it sends is about itself."""

    agent: Agent
    is_authenticated: bool = True
    is_active: bool = True

    @property
    def pk(self) -> str:
        """Return what rate limits count by."""
        return f"agent-{self.agent.pk}"

    def as_actor(self) -> Actor:
        """Return the agent as an actor of the lowest role."""
        return agent_actor(self.agent)


class AgentTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer kva1_<key id>.<secret>`. Whether the agent is trusted now, the service says (403)."""

    def authenticate(self, request: Request) -> tuple[AgentPrincipal, AccessToken] | None:
        """Return (agent, token), or None where no bearer token was sent. Raises `AuthenticationFailed` (401)."""
        scheme, _, text = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        parts = split_token(text.strip(), ACCESS_TOKEN_PREFIX)
        token = access_token_by_key(parts[0]) if parts else None
        genuine = verify_token(
            parts[1] if parts else "", token.digest if token else None, token.pepper_id if token else None
        )
        if token is None or not genuine or token.expires_at <= timezone.now():
            raise AuthenticationFailed("The access token is unknown or has expired: rejoin.")
        if token.cred_epoch != token.agent.cred_epoch:
            raise AuthenticationFailed("The access token is unknown or has expired: rejoin.")
        return AgentPrincipal(token.agent), token

    def authenticate_header(self, request: Request) -> str:
        """Return what a 401 asks for."""
        return 'Bearer realm="agents"'


class IsAgent(BasePermission):
    """Only agents."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Tell whether an agent asks."""
        return isinstance(request.user, AgentPrincipal)
