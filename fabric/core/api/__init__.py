"""What every REST edge shares: who acts, errors as problem bodies, pages, ETags. View bases stand in
`fabric.core.api.views`.

REST framework itself imports this package while it builds its own views, so nothing here may import
`rest_framework.generics`.
"""

from fabric.core.api.etags import etag_of, expected_version
from fabric.core.api.pagination import PageNumberPagination
from fabric.core.api.principals import Principal, actor_of
from fabric.core.api.problems import PreconditionRequired, problem_body, problem_handler, problem_response

__all__ = [
    "PageNumberPagination",
    "PreconditionRequired",
    "Principal",
    "actor_of",
    "etag_of",
    "expected_version",
    "problem_body",
    "problem_handler",
    "problem_response",
]
