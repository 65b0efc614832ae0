"""Errors as RFC 9457 problem bodies, whoever raises them: a handler, the router or the HTTP parser."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

from agent.protocol import FieldProblem

PROBLEM_TYPE_PREFIX = "urn:kvfabric:problem:"
HANDLER_TIMEOUT_S = 20.0
"""Longest time for one request, body included."""
SERVER_NAME = "kvagent"

logger = logging.getLogger("agent.manage")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Problem(Exception):
    """An error to be answered: status, one word for machines, one sentence for people, and the fields at fault."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        problems: Iterable[FieldProblem] = (),
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.problems = tuple(problems)
        self.extra = dict(extra or {})
        self.headers = dict(headers or {})

    def response(self) -> web.Response:
        """Return the problem body; `extra` are its extension members."""
        body: dict[str, Any] = {
            "type": PROBLEM_TYPE_PREFIX + self.kind,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.problems:
            body["problems"] = [problem.model_dump() for problem in self.problems]
        return web.Response(
            status=self.status,
            text=json.dumps(body | self.extra),
            content_type="application/problem+json",
            headers=harden(self.headers),
        )


def harden(headers: Mapping[str, str]) -> dict[str, str]:
    """Return `headers` and those that every answer carries: nothing is cached, sniffed, or tells what serves it."""
    return {"Server": SERVER_NAME, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **headers}


@web.middleware
async def problem_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a problem body, and end a request that takes too long."""
    try:
        async with asyncio.timeout(HANDLER_TIMEOUT_S):
            return await handler(request)
    except Problem as problem:
        return problem.response()
    except TimeoutError:
        return _closing(Problem(408, "timeout", "the request was not complete in time"))
    except web.HTTPException as error:
        return _of_http_exception(error)
    except (ConnectionError, web.RequestPayloadError):
        return _closing(Problem(400, "broken-body", "the body ended early or is not framed as HTTP has it"))
    except Exception:
        logger.exception("%s %s failed", request.method, request.path)
        return _closing(Problem(500, "internal", "an error of the agent: see its log"))


def _of_http_exception(error: web.HTTPException) -> web.StreamResponse:
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        detail = f"this path takes {allowed}"
        return Problem(405, "method-not-allowed", detail, headers={"Allow": allowed}).response()
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return _closing(Problem(413, "too-large", "the body is larger than 1 MiB"))
    if error.status == HTTPStatus.NOT_FOUND:
        return Problem(404, "not-found", "no such path").response()
    return Problem(error.status, "http", error.reason).response()


def _closing(problem: Problem) -> web.Response:
    """Answer and close: what follows on the connection may be the rest of a body."""
    response = problem.response()
    response.force_close()
    return response
