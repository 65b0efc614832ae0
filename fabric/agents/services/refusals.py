"""Refusals of agents: the last segment of the problem body's type is a value of `agent.protocol.Refusal`."""

from agent.protocol import Refusal
from fabric.agents.models import Agent, AgentState
from fabric.core.errors import FabricError

_TEXTS = {
    Refusal.TOKEN_UNKNOWN: "There is no such join token.",
    Refusal.TOKEN_EXPIRED: "The join token has expired.",
    Refusal.TOKEN_USED: "The join token was used before.",
    Refusal.TOKEN_REVOKED: "The join token was revoked.",
    Refusal.TOKEN_SCOPE: "The join token is for another serial number or network.",
    Refusal.CHALLENGE: "The nonce is unknown, used or too old, or the signature over it is wrong: ask for a new one.",
    Refusal.AGENT_PENDING: "The agent waits for an operator's approval.",
    Refusal.AGENT_LOCKED: "The agent is locked: its identity was used by two processes. An operator must look.",
    Refusal.AGENT_DENIED: "This serial number is enrolled under another key: an operator must decide.",
    Refusal.AGENT_REVOKED: "The agent was revoked: enrol again with a new join token.",
    Refusal.AGENT_UNKNOWN: "There is no such agent: enrol again with a new join token.",
    Refusal.JOIN_SEQ_STALE: "This identity was used elsewhere since: the agent is locked and an operator must look.",
}
_BY_STATE = {
    AgentState.PENDING: Refusal.AGENT_PENDING,
    AgentState.LOCKED: Refusal.AGENT_LOCKED,
    AgentState.DENIED: Refusal.AGENT_DENIED,
    AgentState.REVOKED: Refusal.AGENT_REVOKED,
}


class Refused(FabricError):
    """An agent, or something that says it is one, is turned away."""

    status = 403

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(_TEXTS[refusal])
        self.refusal = refusal
        self.kind = refusal.value


def require_active(agent: Agent) -> None:
    """Raise `Refused` naming the trust state unless the agent is active."""
    refusal = _BY_STATE.get(AgentState(agent.state))
    if refusal is not None:
        raise Refused(refusal)
