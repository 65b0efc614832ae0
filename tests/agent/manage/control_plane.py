"""A peer that speaks the control plane's half of the protocol for real: keys, signatures, nonces, tokens, sequences.

It keeps its books in memory and can be told to misbehave. The real control plane is tested against the real agent in
tests/e2e.
"""

import asyncio
import hashlib
import json
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.protocol import (
    ChallengeReply,
    ChallengeRequest,
    Desired,
    EnrollReply,
    EnrollRequest,
    Envelope,
    Grant,
    Heartbeat,
    HeartbeatReply,
    RejoinChallengeRequest,
    RejoinRequest,
    enroll_payload,
    public_key_text,
    rejoin_payload,
    verify,
)
from kvcache.policy import PolicyDocument, parse_policy

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def policy(dram_share: float = 0.25) -> PolicyDocument:
    """Return a policy document that differs by its DRAM share."""
    return parse_policy(
        {
            "version": "fabric/v1",
            "tiers": {"dram": {"capacity": {"share": dram_share}}, "flash": {"capacity": {"share": 0.5}}},
        }
    )


def problem(status: int, kind: str, detail: str = "") -> web.Response:
    """Return a problem body as the control plane writes it."""
    body = {"type": f"urn:kvfabric:problem:{kind}", "title": kind, "status": status, "detail": detail or kind}
    return web.Response(status=status, text=json.dumps(body), content_type="application/problem+json")


@dataclass
class Member:
    """One enrolled agent as the control plane knows it."""

    agent_id: str
    public_key: str
    request: EnrollRequest
    join_seq: int = 1
    tokens: set[str] = field(default_factory=set)
    state: str = "active"


class ControlPlane:
    """The peer. `refuse` maps a path to an answer that is given instead of the honest one."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.kid = "cp-1"
        self.join_tokens: dict[str, tuple[str, str]] = {}
        self.members: dict[str, Member] = {}
        self.beats: list[Heartbeat] = []
        self.beat_tokens: list[str] = []
        self.calls: list[str] = []
        self.refuse: dict[str, Answer] = {}
        self.desired: Envelope | None = None
        self.renew: str | None = None
        self.send_full_once = False
        self.clock_ahead_s = 0.0
        self.heartbeat_interval_s = 0.1
        self._nonces: dict[str, str] = {}

    # --- what a test asks for ---

    def new_token(self, state: str = "good") -> str:
        """Return a join token; `state` is good, many-uses, or the refusal it will meet."""
        token_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        self.join_tokens[token_id] = (hashlib.sha256(secret.encode()).hexdigest(), state)
        return f"kvj1_{token_id}.{secret}"

    def member(self) -> Member:
        """Return the only member."""
        (found,) = self.members.values()
        return found

    def seal(self, generation: int, policy_document: PolicyDocument | None = None, **changes: Any) -> Envelope:
        """Return a signed desired policy for the only member; `changes` override its fields."""
        document = policy_document or policy()
        now_s = time.time()
        fields: dict[str, Any] = {
            "aud": next(iter(self.members), ""),
            "generation": generation,
            "digest": document.digest(),
            "document": document.as_dict(),
            "nonce": secrets.token_hex(16),
            "iat_s": now_s,
            "exp_s": now_s + 300,
        }
        return Envelope.seal(Desired(**(fields | changes)), self.key, self.kid)

    def grant(self, **changes: Any) -> str:
        """Return a read grant for the only member as a bearer token."""
        fields: dict[str, Any] = {"aud": next(iter(self.members), ""), "iat_s": time.time(), "exp_s": time.time() + 60}
        return Envelope.seal(Grant(**(fields | changes)), self.key, self.kid).bearer()

    # --- the doors ---

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[self._misbehave])
        app.router.add_post("/agent/v1/enroll/challenge", self._challenge)
        app.router.add_post("/agent/v1/enroll", self._enroll)
        app.router.add_post("/agent/v1/heartbeat", self._heartbeat)
        app.router.add_post("/agent/v1/rejoin/challenge", self._rejoin_challenge)
        app.router.add_post("/agent/v1/rejoin", self._rejoin)
        return app

    @web.middleware
    async def _misbehave(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.calls.append(request.path)
        other = self.refuse.get(request.path) or self.refuse.get("*")
        return await other(request) if other else await handler(request)

    def _now_s(self) -> float:
        return time.time() + self.clock_ahead_s

    def _nonce(self, subject: str) -> web.Response:
        nonce = secrets.token_urlsafe(32)
        self._nonces[nonce] = subject
        return _json(ChallengeReply(nonce=nonce, server_time_s=self._now_s()))

    async def _challenge(self, request: web.Request) -> web.Response:
        message = ChallengeRequest.model_validate_json(await request.read())
        return self._nonce(f"{message.token_id} {message.public_key}")

    async def _enroll(self, request: web.Request) -> web.Response:
        message = EnrollRequest.model_validate_json(await request.read())
        digest, state = self.join_tokens.get(message.token_id, ("", ""))
        payload = enroll_payload(nonce=message.nonce, token_id=message.token_id, public_key=message.public_key)
        if self._nonces.pop(message.nonce, None) != f"{message.token_id} {message.public_key}":
            return problem(403, "challenge", "unknown nonce")
        if not verify(message.public_key, payload, message.signature):
            return problem(403, "challenge", "wrong signature")
        if hashlib.sha256(message.token_secret.encode()).hexdigest() != digest:
            return problem(403, "token-unknown")
        if state not in ("good", "many-uses"):
            return problem(403, state)
        if state == "good":
            self.join_tokens[message.token_id] = (digest, "token-used")
        member = Member(str(uuid.uuid4()), message.public_key, message)
        self.members = {member.agent_id: member}
        return self._identity(member)

    def _identity(self, member: Member) -> web.Response:
        token = f"kva1_{secrets.token_hex(4)}.{secrets.token_urlsafe(32)}"
        member.tokens = {token}
        return _json(
            EnrollReply(
                agent_id=member.agent_id,
                access_token=token,
                access_token_expires_s=self._now_s() + 86400,
                control_plane_keys={self.kid: public_key_text(self.key)},
                join_seq=member.join_seq,
                heartbeat_interval_s=self.heartbeat_interval_s,
                server_time_s=self._now_s(),
            )
        )

    async def _rejoin_challenge(self, request: web.Request) -> web.Response:
        message = RejoinChallengeRequest.model_validate_json(await request.read())
        return self._nonce(f"rejoin {message.agent_id}")

    async def _rejoin(self, request: web.Request) -> web.Response:
        message = RejoinRequest.model_validate_json(await request.read())
        member = self.members.get(message.agent_id)
        payload = rejoin_payload(agent_id=message.agent_id, nonce=message.nonce, join_seq=message.join_seq)
        if member is None:
            return problem(403, "agent-unknown")
        if self._nonces.pop(message.nonce, None) != f"rejoin {message.agent_id}":
            return problem(403, "challenge")
        if not verify(member.public_key, payload, message.signature):
            return problem(403, "challenge")
        if member.state != "active":
            return problem(403, f"agent-{member.state}")
        if message.join_seq != member.join_seq:
            member.state = "locked"
            return problem(403, "join-seq-stale")
        member.join_seq += 1
        return self._identity(member)

    async def _heartbeat(self, request: web.Request) -> web.Response:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        message = Heartbeat.model_validate_json(await request.read())
        member = next((member for member in self.members.values() if token in member.tokens), None)
        if member is None:
            return problem(401, "not-authenticated")
        if member.state != "active":
            return problem(403, f"agent-{member.state}")
        assert message.status.agent_id == member.agent_id
        self.beats.append(message)
        self.beat_tokens.append(token)
        renew, self.renew = self.renew, None
        full, self.send_full_once = self.send_full_once, False
        return _json(
            HeartbeatReply(
                server_time_s=self._now_s(),
                desired=self.desired,
                send_full=full,
                access_token=renew,
                access_token_expires_s=self._now_s() + 86400 if renew else None,
            )
        )


def _json(message: Any) -> web.Response:
    return web.Response(text=message.model_dump_json(), content_type="application/json")


@asynccontextmanager
async def serving(control_plane: ControlPlane, port: int = 0) -> AsyncIterator[int]:
    """Serve the peer on a loopback port while the context lasts; yields the port."""
    runner = web.AppRunner(control_plane.app(), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def eventually(condition: Callable[[], Any], message: str, timeout_s: float = 8.0) -> Any:
    """Wait until `condition` holds and return its value; fail naming `message`."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if value := condition():
            return value
        await asyncio.sleep(0.01)
    raise AssertionError(f"{message} did not happen within {timeout_s} s")
