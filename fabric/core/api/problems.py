"""Errors as RFC 9457 problem bodies: type, title, status, detail, and `problems` where fields are at fault."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import DataError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from fabric.core.errors import FabricError, Problem, TooManyAttempts

logger = logging.getLogger(__name__)

TYPE_PREFIX = "urn:kvfabric:problem:"
CONTENT_TYPE = "application/problem+json"
MAX_PROBLEMS = 50
"""A body lists no more faults than this: a hostile document could have millions."""


class PreconditionRequired(FabricError):
    """A write to a versioned object without `If-Match`."""

    status = 428
    kind = "precondition-required"

    def __init__(self) -> None:
        problem = Problem("If-Match", "the header is missing", "send the ETag of the version you read")
        super().__init__("Say which version you have read, so that nobody's change is overwritten.", [problem])


_KINDS = {
    400: "bad-request",
    401: "not-authenticated",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    409: "conflict",
    412: "stale-version",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-many-requests",
}


def problem_body(status: int, kind: str, detail: str, problems: Sequence[Problem] = ()) -> dict[str, Any]:
    """Return the members of a problem body; `kind` is the last segment of its type."""
    body: dict[str, Any] = {
        "type": TYPE_PREFIX + kind,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if problems:
        body["problems"] = [
            {"field": p.field, "problem": p.problem, "remedy": p.remedy} for p in problems[:MAX_PROBLEMS]
        ]
    return body


def problem_response(
    status: int,
    kind: str,
    detail: str,
    problems: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem body as a response; it is never cached."""
    headers = {"Cache-Control": "no-store", **(headers or {})}
    return Response(
        problem_body(status, kind, detail, problems), status=status, headers=headers, content_type=CONTENT_TYPE
    )


def problem_handler(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Map what a view raised to a problem body; None leaves a programming error to Django (500, logged)."""
    if isinstance(error, FabricError):
        headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, TooManyAttempts) else {}
        return problem_response(error.status, error.kind, error.title, error.problems, headers)
    if isinstance(error, Http404):
        return problem_response(404, "not-found", "There is no such thing here, or none that you may see.")
    if isinstance(error, PermissionDenied):
        return problem_response(403, "not-allowed", str(error) or "You may not do this.")
    if isinstance(error, exceptions.ValidationError):
        problems = list(_problems_in(error.detail))
        return problem_response(400, "bad-request", "Some fields cannot be used as they stand.", problems)
    if isinstance(error, exceptions.APIException):
        kind = _KINDS.get(error.status_code, "error")
        return problem_response(error.status_code, kind, _sentence(error), headers=_headers_of(error))
    if isinstance(error, RequestDataTooBig):
        return problem_response(413, "too-large", "The body is too large.")
    if isinstance(error, RecursionError):
        return problem_response(400, "bad-request", "The document is nested too deeply.")
    if isinstance(error, OverflowError | DataError):
        logger.info("a value did not fit: %s", type(error).__name__)
        return problem_response(400, "bad-request", "A number or text does not fit into its field.")
    if isinstance(error, UnicodeError):
        return problem_response(400, "bad-request", "A text is not valid Unicode.")
    return None


def _sentence(error: exceptions.APIException) -> str:
    detail = error.detail
    return str(detail) if isinstance(detail, str) else "; ".join(p.problem for p in _problems_in(detail))


def _headers_of(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    auth_header = getattr(error, "auth_header", None)
    if auth_header:
        headers["WWW-Authenticate"] = str(auth_header)
    wait_s = getattr(error, "wait", None)
    if wait_s:
        headers["Retry-After"] = f"{wait_s:.0f}"
    return headers


def _problems_in(detail: Any, path: str = "") -> Iterator[Problem]:
    """Flatten REST framework's nested error detail into dotted fields."""
    if isinstance(detail, Mapping):
        for key, value in detail.items():
            name = "" if key == "non_field_errors" else str(key)
            yield from _problems_in(value, ".".join(filter(None, (path, name))))
    elif isinstance(detail, list | tuple):
        nested = any(isinstance(item, Mapping | list | tuple) for item in detail)
        for index, item in enumerate(detail):
            yield from _problems_in(item, ".".join(filter(None, (path, str(index) if nested else ""))))
    else:
        yield Problem(path, str(detail))
