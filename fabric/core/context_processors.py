"""What every page's frame needs."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from fabric.core.actor import Role
from fabric.core.web.nav import sections_for
from fabric.core.web.request import actor_of


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return theme, time zone and, for signed-in people, navigation and what they may do."""
    user: Any = getattr(request, "user", None)
    context: dict[str, Any] = {
        "theme": getattr(user, "theme", "system"),
        "time_zone": getattr(user, "time_zone", "") or settings.TIME_ZONE,
    }
    if user is not None and user.is_authenticated and hasattr(user, "role"):
        actor = actor_of(request)
        context |= {
            "actor": actor,
            "sections": sections_for(actor, request.path),
            "can_operate": actor.may(Role.OPERATOR),
            "can_administer": actor.may(Role.ADMIN),
        }
    return context
