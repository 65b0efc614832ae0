"""Error pages. Addresses for programs get problem bodies, people get pages."""

from http import HTTPStatus

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader

from fabric.core.api import problem_body
from fabric.core.middleware import request_id

_PROGRAM_PATHS = ("/api/", "/agent/")
_KINDS = {400: "bad-request", 403: "not-allowed", 404: "not-found", 500: "internal"}


@login_not_required
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: nothing of the fault is repeated, since it may be hostile."""
    return _error(request, 400, "The request cannot be understood.")


@login_not_required
def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: says which role is missing, where the page knew."""
    return _error(request, 403, str(exception) if isinstance(exception, PermissionDenied) else "")


@login_not_required
def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404."""
    return _error(request, 404, "")


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    """500: rendered without session, user or database, which may be what broke."""
    return _error(request, 500, "")


def _error(request: HttpRequest, status: int, detail: str) -> HttpResponse:
    if request.path.startswith(_PROGRAM_PATHS):
        body = problem_body(status, _KINDS[status], detail or HTTPStatus(status).phrase)
        return JsonResponse(body, status=status, content_type="application/problem+json")
    context = {"detail": detail, "request_id": request_id.get(), "theme": "system"}
    return HttpResponse(loader.get_template(f"{status}.html").render(context), status=status)
