"""The management API: one path that changes something, behind a signature; reads behind a bearer token; two probes."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from agent.manage.access import ReadAccess
from agent.manage.metrics import CONTENT_TYPE, Exposition
from agent.manage.problem import Handler, Problem, harden, problem_middleware
from agent.manage.state import ManageState
from agent.protocol import MAX_BODY_BYTES, ApplyReply, ApplyState, Envelope, FieldProblem, ProtocolError

BODY_TIMEOUT_S = 10.0
OPEN_PATHS = frozenset({"/livez", "/readyz"})
"""Paths that answer without a credential (decision 0003)."""


class ManageApi:
    """The handlers and what they need."""

    def __init__(self, state: ManageState, access: ReadAccess, exposition: Exposition) -> None:
        self._state = state
        self._access = access
        self._exposition = exposition

    def app(self) -> web.Application:
        """Return the application with all paths."""
        app = web.Application(middlewares=[problem_middleware], client_max_size=MAX_BODY_BYTES)
        app.router.add_put("/manage/v1/desired", self._put_desired)
        app.router.add_get("/manage/v1/status", self._guarded(self._get_status))
        app.router.add_get("/manage/v1/inventory", self._guarded(self._get_inventory))
        app.router.add_get("/metrics", self._guarded(self._get_metrics))
        app.router.add_get("/livez", self._get_livez)
        app.router.add_get("/readyz", self._get_readyz)
        app.on_response_prepare.append(_harden_response)
        return app

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            self._access.require(request.headers.getall("Authorization", ()))
            return await handler(request)

        return guarded

    async def _put_desired(self, request: web.Request) -> web.StreamResponse:
        envelope = _parse_envelope(await _read_json_body(request))
        try:
            reply = await self._state.apply(envelope)
        except ProtocolError as error:
            raise Problem(403, "not-believed", str(error)) from error
        if reply.state is ApplyState.APPLIED:
            return web.Response(text=reply.model_dump_json(), content_type="application/json")
        raise _not_applied(reply)

    async def _get_status(self, _request: web.Request) -> web.StreamResponse:
        status = await asyncio.to_thread(self._state.status)
        return web.Response(text=status.model_dump_json(), content_type="application/json")

    async def _get_inventory(self, _request: web.Request) -> web.StreamResponse:
        inventory = await self._state.inventory.current()
        return web.Response(text=inventory.model_dump_json(), content_type="application/json")

    async def _get_metrics(self, _request: web.Request) -> web.StreamResponse:
        body = await asyncio.to_thread(self._exposition.text)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _get_livez(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _get_readyz(self, _request: web.Request) -> web.StreamResponse:
        """Ready means that blocks are served; being without a control plane is said, and no reason to be unready."""
        ready, reason = self._state.runtime.ready()
        words = ["ok" if ready else "not ok"]
        if not ready:
            words.append(reason)
        if self._state.identity is None:
            words.append("enrolled=false")
        return web.Response(status=200 if ready else 503, text=" ".join(words) + "\n")


async def _harden_response(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in harden({}).items():
        response.headers[name] = value


async def _read_json_body(request: web.Request) -> bytes:
    """Return a body of at most 1 MiB that calls itself JSON."""
    if request.content_type != "application/json":
        raise Problem(415, "content-type", "the body must be application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Problem(415, "content-encoding", "the body must not be compressed")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, request.content_length or 0)
    async with asyncio.timeout(BODY_TIMEOUT_S):
        return await request.read()


def _parse_envelope(body: bytes) -> Envelope:
    try:
        return Envelope.model_validate_json(body)
    except ValidationError as error:
        problems = [_field_problem(item) for item in error.errors(include_url=False, include_input=False)[:10]]
        raise Problem(400, "not-an-envelope", "the body is not a signed envelope", problems=problems) from error


def _field_problem(item: Mapping[str, Any]) -> FieldProblem:
    return FieldProblem(field=".".join(str(part) for part in item["loc"]), problem=str(item["msg"]))


def _not_applied(reply: ApplyReply) -> Problem:
    extra = reply.model_dump(mode="json", exclude={"problems"})
    if reply.state is ApplyState.STALE:
        detail = f"a newer policy, generation {reply.observed_generation}, is in force"
        return Problem(409, "stale", detail, extra=extra | {"problems": []})
    return Problem(422, "refused", "this agent cannot hold the policy", problems=reply.problems, extra=extra)
