"""From a request to what pages want: who acts, in which time zone they read, which part of a page a script asks for."""

from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import HttpRequest
from django.utils import timezone

from fabric.core.api import actor_of

__all__ = ["actor_of", "fragment_of", "zone_of"]


def zone_of(user: Any) -> tzinfo:
    """Return the time zone a person chose, else the site's. An unknown name (the zone data changed) counts as none."""
    name = getattr(user, "time_zone", "")
    try:
        return ZoneInfo(name) if name else timezone.get_default_timezone()
    except (ZoneInfoNotFoundError, ValueError):
        return timezone.get_default_timezone()


def fragment_of(request: HttpRequest) -> str:
    """Return the name of the part of a page that a script asks for, or an empty text for the whole page."""
    return request.headers.get("X-Fragment", "")
