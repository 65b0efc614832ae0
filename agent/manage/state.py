"""What the management side knows beyond the runtime, and the one way in which a desired policy comes into force."""

import asyncio
import logging
import time
from collections.abc import Callable

from agent.manage.conditions import CLOCK_SKEW, POLICY_REFUSED, Conditions
from agent.manage.identity import Identity, IdentityStore
from agent.manage.inventory import Inventory
from agent.protocol import ApplyReply, ApplyState, Desired, Envelope, ProtocolError, Status
from agent.runtime import AgentRuntime

MAX_CLOCK_SKEW_S = 60.0
"""Above it the condition `clock_skew` holds. It is never a reason to refuse anything."""

logger = logging.getLogger("agent.manage")


class ManageState:
    """Identity, clock offset and conditions; used by the doors and the control loop on one event loop."""

    def __init__(self, runtime: AgentRuntime, store: IdentityStore, clock: Callable[[], float] = time.time) -> None:
        self.runtime = runtime
        self.identity_store = store
        self.identity: Identity | None = store.load()
        self.conditions = Conditions()
        self.inventory = Inventory()
        self.clock_offset_s: float | None = None
        """The control plane's time less ours, as of its last answer."""
        self._clock = clock

    @property
    def agent_id(self) -> str:
        """The id which the control plane gave; empty before enrolment."""
        return self.identity.agent_id if self.identity else ""

    def now_s(self) -> float:
        """Return this machine's unix time."""
        return self._clock()

    def control_plane_now_s(self) -> float:
        """Return the unix time by the control plane's clock, by which what it signs is judged."""
        return self._clock() + (self.clock_offset_s or 0.0)

    def note_server_time(self, server_time_s: float, sent_s: float, received_s: float) -> None:
        """Keep the offset to the control plane's clock, taken at the middle of a request."""
        self.clock_offset_s = server_time_s - (sent_s + received_s) / 2
        skewed = abs(self.clock_offset_s) > MAX_CLOCK_SKEW_S + (received_s - sent_s) / 2
        text = f"the control plane's clock is {self.clock_offset_s:+.1f} s from this machine's"
        if self.conditions.set(CLOCK_SKEW, "true" if skewed else "false", "offset", text) and skewed:
            logger.warning("%s: check time synchronisation", text)

    def status(self) -> Status:
        """What the agent is and runs, with all conditions."""
        return self.runtime.status(self.agent_id, self.conditions.all())

    def open_desired(self, envelope: Envelope) -> Desired:
        """Return the policy inside an envelope that may be believed.

        Raises:
            ProtocolError: not signed by a pinned key, for another agent, expired or malformed; or no key is pinned yet.
        """
        identity = self.identity
        if identity is None:
            raise ProtocolError("this agent is not enrolled: it believes no control plane yet")
        return envelope.open_desired(
            keys=identity.control_plane_keys, audience=identity.agent_id, now_s=self.control_plane_now_s()
        )

    async def apply(self, envelope: Envelope) -> ApplyReply:
        """Obey the policy inside `envelope`, whichever way it came.

        Raises:
            ProtocolError: it is not to be believed (see `open_desired`).
        """
        desired = await asyncio.to_thread(self.open_desired, envelope)
        reply = await asyncio.to_thread(self.runtime.apply_desired, desired)
        if reply.state is ApplyState.REFUSED:
            text = "; ".join(f"{p.field}: {p.problem}" for p in reply.problems)
            message = f"generation {desired.generation}: {text}"
            if self.conditions.set(POLICY_REFUSED, "true", "refused", message):
                logger.warning("policy refused, generation %d: %s", desired.generation, text)
        elif reply.state is ApplyState.APPLIED:
            self.conditions.set(POLICY_REFUSED, "false", "applied")
        return reply
