"""How a request of the API proves who it is for: by an API token. Sessions are REST framework's own, with CSRF
check.
"""

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from fabric.accounts.domain import API_TOKEN_PREFIX
from fabric.accounts.models import ApiToken, User
from fabric.accounts.selectors import api_token_by_key
from fabric.accounts.services import note_token_use
from fabric.core.crypto import split_token, verify_token


class ApiTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer kvt1_<key id>.<secret>`. Every reason to refuse gives the same answer."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """Return (owner, token), or None where no bearer token was sent. Raises `AuthenticationFailed`."""
        scheme, _, text = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        parts = split_token(text.strip(), API_TOKEN_PREFIX)
        token = api_token_by_key(parts[0]) if parts else None
        now = timezone.now()
        genuine = verify_token(
            parts[1] if parts else "", token.digest if token else None, token.pepper_id if token else None
        )
        if token is None or not genuine or token.revoked_at is not None or not token.user.is_active:
            raise AuthenticationFailed("The token is not valid.")
        if token.expires_at is not None and token.expires_at <= now:
            raise AuthenticationFailed("The token is not valid.")
        note_token_use(token_id=token.pk, now=now)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """Return what a 401 asks for."""
        return 'Bearer realm="fabric"'
