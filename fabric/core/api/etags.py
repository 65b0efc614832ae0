"""Strong ETags of versioned objects, and the version that a caller says it has read (`If-Match`)."""

import re

from django.http import HttpRequest
from rest_framework.request import Request

from fabric.core.api.problems import PreconditionRequired
from fabric.core.errors import Invalid, Problem, StaleVersion
from fabric.core.models import Versioned

_ETAG = re.compile(r'"(\d{1,9})"')


class BadPrecondition(Invalid):
    """An `If-Match` that is not one of our ETags."""

    status = 400
    kind = "bad-request"


def etag_of(obj: Versioned) -> str:
    """Return the strong ETag of this version of the object."""
    return f'"{obj.version}"'


def expected_version(request: Request | HttpRequest) -> int:
    """Return the version in `If-Match`.

    Raises: PreconditionRequired: the header is missing (428). StaleVersion: a weak tag, which never matches strongly
    (412). BadPrecondition: anything but one ETag as this API gives them (400). `*` is refused: it would overwrite
    unseen changes.
    """
    text = request.headers.get("If-Match", "").strip()
    if not text:
        raise PreconditionRequired
    if text.startswith("W/"):
        raise StaleVersion("A weak ETag never matches here: send the ETag exactly as it was given.")
    found = _ETAG.fullmatch(text)
    if found is None:
        problem = Problem(
            "If-Match", f"{text[:40]!r} is not an ETag of this API", 'send the one ETag you read, such as "3"'
        )
        raise BadPrecondition("The precondition cannot be understood.", [problem])
    return int(found[1])
