"""REST edges of accounts."""

from typing import Any
from uuid import UUID

from django.contrib.auth import update_session_auth_hash
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from fabric.accounts import selectors, services
from fabric.accounts import serializers as shapes
from fabric.accounts.api_filters import ApiTokenFilter, UserFilter
from fabric.accounts.domain import API_TOKEN_LIFE
from fabric.accounts.models import User
from fabric.core.actor import Role
from fabric.core.api.serializers import ReasonInput, parsed
from fabric.core.api.views import FabricViewSet, ListAndRetrieve


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How API tokens are described in OpenAPI."""

    target_class = "fabric.accounts.authentication.ApiTokenAuthentication"
    name = "apiToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "An API token: kvt1_<key id>.<secret>"}


@extend_schema_view(
    list=extend_schema(summary="List people"),
    retrieve=extend_schema(summary="Read one person"),
)
class UserViewSet(ListAndRetrieve):
    """People; for admins."""

    serializer_class = shapes.UserSerializer
    filterset_class = UserFilter
    read_role = write_role = Role.ADMIN

    def rows(self) -> QuerySet[User]:
        """Return the people that the actor may see."""
        return selectors.users_for_list(self.actor)

    @extend_schema(summary="Make a person", request=shapes.UserInput, responses={201: shapes.MadeUserSerializer})
    def create(self, request: Request) -> Response:
        """Make a person; a generated password is shown only in this answer."""
        user, password = services.create_user(actor=self.actor, **parsed(shapes.UserInput, request))
        body = {**shapes.UserSerializer(user).data, "generated_password": password}
        return _uncached(body, status.HTTP_201_CREATED)

    @extend_schema(
        summary="Change role or access", request=shapes.UserChange(partial=True), responses=shapes.UserSerializer
    )
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change a person's role, or let them in or not."""
        changes = parsed(shapes.UserChange, request, partial=True)
        return self.rendered(services.update_user(actor=self.actor, user_id=pk, **changes))

    @extend_schema(summary="Generate a new password", request=None, responses=shapes.ResetPasswordSerializer)
    @action(detail=True, methods=["post"])
    def reset_password(self, request: Request, pk: UUID) -> Response:
        """Give a person a generated password, shown only in this answer; their sessions end."""
        return _uncached({"generated_password": services.reset_password(actor=self.actor, user_id=pk)})


@extend_schema_view(
    list=extend_schema(summary="List API tokens"),
    retrieve=extend_schema(summary="Read one API token"),
)
class ApiTokenViewSet(ListAndRetrieve):
    """API tokens: one's own; all of them for admins."""

    serializer_class = shapes.ApiTokenSerializer
    filterset_class = ApiTokenFilter
    write_role = Role.VIEWER

    def rows(self) -> QuerySet[Any]:
        """Return the tokens that the actor may see."""
        return selectors.api_tokens_for_list(self.actor)

    @extend_schema(
        summary="Make an API token", request=shapes.ApiTokenInput, responses={201: shapes.MadeApiTokenSerializer}
    )
    def create(self, request: Request) -> Response:
        """Make a token; its text is shown only in this answer."""
        data = {"expires_at": timezone.now() + API_TOKEN_LIFE, **parsed(shapes.ApiTokenInput, request)}
        made = services.create_api_token(actor=self.actor, **data)
        return _uncached({**shapes.ApiTokenSerializer(made.token).data, "token": made.text}, status.HTTP_201_CREATED)

    @extend_schema(summary="Revoke an API token", request=ReasonInput, responses=shapes.ApiTokenSerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: UUID) -> Response:
        """End a token for good."""
        reason = parsed(ReasonInput, request).get("reason", "")
        return self.rendered(services.revoke_api_token(actor=self.actor, token_id=pk, reason=reason))


class MeViewSet(FabricViewSet):
    """Who is asking, and what is theirs alone."""

    write_role = Role.VIEWER
    serializer_class = shapes.MeSerializer
    filter_backends = []
    pagination_class = None

    @extend_schema(summary="Who am I", responses=shapes.MeSerializer)
    def show(self, request: Request) -> Response:
        """Return who is asking, in which role."""
        return Response(self._me(request.user))

    @extend_schema(
        summary="Change my preferences", request=shapes.PreferencesInput(partial=True), responses=shapes.MeSerializer
    )
    def change(self, request: Request) -> Response:
        """Change one's own time zone or theme."""
        changes = parsed(shapes.PreferencesInput, request, partial=True)
        return Response(self._me(services.update_preferences(actor=self.actor, **changes)))

    @extend_schema(summary="Change my password", request=shapes.PasswordInput, responses={204: None})
    def change_password(self, request: Request) -> Response:
        """Change one's own password; other sessions end, this one stays."""
        user = services.change_password(actor=self.actor, **parsed(shapes.PasswordInput, request))
        update_session_auth_hash(request._request, user)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _me(self, user: Any) -> dict[str, str]:
        actor = self.actor
        return {
            "kind": actor.kind.value,
            "id": actor.id,
            "name": actor.name,
            "role": actor.role.value,
            "time_zone": user.time_zone,
            "theme": user.theme,
        }


def _uncached(body: dict[str, Any], code: int = status.HTTP_200_OK) -> Response:
    """Return an answer that holds a secret: no cache may keep it."""
    return Response(body, status=code, headers={"Cache-Control": "no-store"})
