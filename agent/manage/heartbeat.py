"""The agent's pulse: what it runs goes up, what it should run comes down, beside the data and never in its way."""

import asyncio
import logging
import time

from agent.manage.backoff import MAX_DELAY_S, Backoff, jittered_s
from agent.manage.client import ControlPlaneClient, Refused, Unreachable, wait_or_stop
from agent.manage.conditions import CONTROL_PLANE_UNREACHABLE, IDENTITY_REFUSED, POLICY_REFUSED
from agent.manage.enroll import Joiner
from agent.manage.identity import Identity
from agent.manage.state import ManageState
from agent.protocol import ApplyState, Envelope, Heartbeat, HeartbeatReply, ProtocolError, Refusal

FULL_STATE_INTERVAL_S = 600.0
"""Capabilities and inventory go up at least this often."""
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 300.0
"""Bounds of the interval that the control plane may ask for."""
HTTP_UNAUTHORIZED = 401
_IDENTITY_IS_LOST = frozenset(
    {
        Refusal.AGENT_UNKNOWN,
        Refusal.AGENT_REVOKED,
        Refusal.AGENT_DENIED,
        Refusal.AGENT_LOCKED,
        Refusal.JOIN_SEQ_STALE,
    }
)
"""Refusals after which a new join token means: enrol anew. An agent that waits for approval must not."""

logger = logging.getLogger("agent.manage")


class Heartbeats:
    """Reports, and obeys the answers, for as long as there is an identity that the control plane may recognise."""

    def __init__(self, state: ManageState, client: ControlPlaneClient, joiner: Joiner) -> None:
        self._state = state
        self._client = client
        self._joiner = joiner
        self._backoff = Backoff()
        self._seq = 0
        self._sent_full = False
        self._full_at_s: float | None = None
        self._rejoined_at_s: float | None = None

    async def run(self, stop: asyncio.Event) -> bool:
        """Beat until `stop` (False), or until the identity is refused and there is a new join token (True)."""
        while not stop.is_set() and (identity := self._state.identity) is not None:
            try:
                delay_s = await self._beat_once(identity)
            except Unreachable as error:
                delay_s = self._unreachable(error)
            except Refused as refused:
                self._refused(refused)
                if refused.refusal in _IDENTITY_IS_LOST and self._joiner.has_new_token():
                    return True
                delay_s = MAX_DELAY_S
            await wait_or_stop(stop, delay_s)
        return False

    async def _beat_once(self, identity: Identity) -> float:
        """Send one heartbeat and obey its answer; return the seconds until the next. Raises what the client raises."""
        try:
            reply = await self._send(identity, identity.access_token)
        except Refused as refused:
            if refused.status != HTTP_UNAUTHORIZED:
                raise
            reply = await self._recover(identity, refused)
        else:
            await self._forget_previous_token()
        self._reached()
        await self._keep_new_token(reply)
        changed = await self._obey(reply.desired) if reply.desired else False
        interval_s = (self._state.identity or identity).heartbeat_interval_s
        # A wish for the full state is met at once, but not in a loop by a server that never has enough.
        if changed or (reply.send_full and not self._sent_full):
            return 0.0
        return jittered_s(min(max(interval_s, MIN_INTERVAL_S), MAX_INTERVAL_S))

    async def _send(self, identity: Identity, token: str) -> HeartbeatReply:
        state = self._state
        full = self._full_at_s is None or time.monotonic() - self._full_at_s > FULL_STATE_INTERVAL_S
        inventory = await state.inventory.current() if full else None
        status = await asyncio.to_thread(state.status)
        # The sequence grows with each attempt: what may have been lost on the way shows as a gap.
        self._seq += 1
        self._sent_full = full
        sent_s = state.now_s()
        message = Heartbeat(
            seq=self._seq,
            join_seq=identity.join_seq,
            agent_time_s=sent_s,
            status=status,
            capabilities=state.runtime.capabilities() if full else None,
            inventory=inventory,
        )
        reply = await self._client.post("/agent/v1/heartbeat", message, HeartbeatReply, token)
        state.note_server_time(reply.server_time_s, sent_s, state.now_s())
        if full:
            self._full_at_s = time.monotonic()
        if reply.send_full:
            self._full_at_s = None
        return reply

    async def _recover(self, identity: Identity, refused: Refused) -> HeartbeatReply:
        """Find a credential that works after a 401: the token before the last renewal, else a new one by the key."""
        if identity.previous_access_token is not None:
            try:
                reply = await self._send(identity, identity.previous_access_token)
            except Refused as again:
                if again.status != HTTP_UNAUTHORIZED:
                    raise
            else:
                logger.warning("the renewed access token does not work: using the one before it")
                await self._store(identity.model_copy(update=_back_to(identity.previous_access_token)))
                return reply
        now_s = time.monotonic()
        if self._rejoined_at_s is not None and now_s - self._rejoined_at_s < MAX_DELAY_S:
            raise refused  # the token of a rejoin just now is refused too: another rejoin would not help
        logger.info("the access token is not accepted any more: rejoining with the agent's key")
        identity = await self._joiner.rejoin(identity)
        self._rejoined_at_s = now_s
        return await self._send(identity, identity.access_token)

    async def _obey(self, envelope: Envelope) -> bool:
        """Apply the policy that came with an answer; tell whether something changed that is worth reporting at once."""
        before = self._state.runtime.observed_generation
        try:
            reply = await self._state.apply(envelope)
        except ProtocolError as error:
            if self._state.conditions.set(POLICY_REFUSED, "true", "not-believed", str(error)):
                logger.warning("the policy that came with the heartbeat is not to be believed: %s", error)
            return False
        return reply.state is ApplyState.APPLIED and reply.observed_generation != before

    async def _keep_new_token(self, reply: HeartbeatReply) -> None:
        identity = self._state.identity
        if identity is None or reply.access_token is None or reply.access_token == identity.access_token:
            return
        expires_s = reply.access_token_expires_s or identity.access_token_expires_s
        await self._store(identity.renewed(reply.access_token, expires_s))

    async def _forget_previous_token(self) -> None:
        identity = self._state.identity
        if identity is not None and identity.previous_access_token is not None:
            await self._store(identity.model_copy(update={"previous_access_token": None}))

    async def _store(self, identity: Identity) -> None:
        """Store a change of token, then use it; on a full disk the old one goes on, and rejoining remains."""
        try:
            await asyncio.to_thread(self._state.identity_store.save, identity)
        except OSError as error:
            logger.error("the new access token cannot be stored: %s", error.strerror)
        else:
            self._state.identity = identity

    def _reached(self) -> None:
        self._backoff.reset()
        if self._state.conditions.set(CONTROL_PLANE_UNREACHABLE, "false", "answered"):
            logger.info("the control plane answers")
        self._state.conditions.set(IDENTITY_REFUSED, "false", "recognised")

    def _unreachable(self, error: Unreachable) -> float:
        if self._state.conditions.set(CONTROL_PLANE_UNREACHABLE, "true", error.reason, str(error)):
            logger.warning("the control plane cannot be reached (%s): serving on under the last policy", error)
        return self._backoff.next_s(error.retry_after_s)

    def _refused(self, refused: Refused) -> None:
        self._state.conditions.set(CONTROL_PLANE_UNREACHABLE, "false", "answered")
        if self._state.conditions.set(IDENTITY_REFUSED, "true", refused.reason, str(refused)):
            logger.error("the control plane refuses this agent (%s): %s", refused.reason, refused)


def _back_to(token: str) -> dict[str, str | None]:
    return {"access_token": token, "previous_access_token": None}
