"""From a request to the actor that selectors and services take."""

from typing import Protocol, runtime_checkable

from django.http import HttpRequest
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from fabric.core.actor import Actor


@runtime_checkable
class Principal(Protocol):
    """Whoever can act: a user, an API token, an agent."""

    def as_actor(self) -> Actor:
        """Return the actor with the role that bounds it now."""
        ...


def actor_of(request: Request | HttpRequest) -> Actor:
    """Return who acts: what authenticated the request (a token) before the person behind it. Raises
    `NotAuthenticated`.
    """
    for source in (getattr(request, "auth", None), getattr(request, "user", None)):
        if isinstance(source, Principal):
            return source.as_actor()
    raise NotAuthenticated
