"""Middleware of the whole site."""

from collections.abc import Callable
from contextvars import ContextVar
from uuid import uuid4

from django.http import HttpRequest, HttpResponse

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request in service; audit rows and log lines carry it."""


class RequestIdMiddleware:
    """Gives each request an id of our own making and returns it as `X-Request-Id`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        token = request_id.set(uuid4().hex)
        try:
            response = self.get_response(request)
            response["X-Request-Id"] = request_id.get()
        finally:
            request_id.reset(token)
        return response
