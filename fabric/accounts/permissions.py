"""Which role a view needs. The services check again: an edge that forgets cannot open a door."""

from typing import TYPE_CHECKING

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from fabric.core.actor import ActorKind, Role
from fabric.core.api.principals import Principal, actor_of

if TYPE_CHECKING:  # REST framework imports this module while it builds APIView
    from rest_framework.views import APIView


class RolePermission(BasePermission):
    """Safe methods need the view's `read_role` (viewer), others its `write_role` (operator). Agents are not people."""

    message = "Your role does not reach this."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Tell whether the person or token may use this method of this view."""
        if not isinstance(request.user, Principal):
            return False
        actor = actor_of(request)
        if actor.kind not in {ActorKind.USER, ActorKind.TOKEN}:
            return False
        needed = (
            getattr(view, "read_role", Role.VIEWER)
            if request.method in SAFE_METHODS
            else getattr(view, "write_role", Role.OPERATOR)
        )
        return actor.may(needed)
