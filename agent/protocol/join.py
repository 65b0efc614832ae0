"""How an agent joins, and how it recovers when its access token expired."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agent.protocol.base import PROTOCOL_VERSION, Base64Key, Base64Signature, Message, ShortText

ENROLL_CONTEXT = b"kvf-enroll-v1"
REJOIN_CONTEXT = b"kvf-rejoin-v1"

TokenId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{8}$")]
Nonce = Annotated[str, StringConstraints(min_length=32, max_length=64)]


class ChallengeRequest(Message):
    """Step 1. The agent names its join token (public part only) and its public key."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    token_id: TokenId
    public_key: Base64Key


class ChallengeReply(Message):
    """A single-use nonce that lives 60 s."""

    nonce: Nonce
    server_time_s: float


class Capabilities(Message):
    """What this agent can enforce; a policy that asks for more is refused before it is pushed."""

    engine: ShortText
    tiers: list[Literal["dram", "flash"]]
    evictions: list[ShortText]
    dram_limit_bytes: int = Field(ge=0)
    flash_limit_bytes: int = Field(ge=0)
    max_value_bytes: int = Field(ge=1)


class EnrollRequest(Message):
    """Step 2. The token's secret, and a signature of `enroll_payload` that proves the private key."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    token_id: TokenId
    token_secret: Annotated[str, StringConstraints(min_length=20, max_length=100)]
    public_key: Base64Key
    nonce: Nonce
    signature: Base64Signature
    hostname: ShortText
    version: ShortText
    serial: ShortText | None = None
    manage_url: ShortText
    data_url: ShortText
    capabilities: Capabilities


class EnrollReply(Message):
    """The identity the control plane made; the agent keeps it in its state directory with mode 0600."""

    agent_id: ShortText
    access_token: ShortText
    access_token_expires_s: float
    control_plane_keys: dict[str, Base64Key] = Field(min_length=1)
    join_seq: int = Field(ge=1)
    heartbeat_interval_s: float = Field(gt=0)
    server_time_s: float


class RejoinChallengeRequest(Message):
    """First call of a recovery: which agent wants a nonce."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    agent_id: ShortText


class RejoinRequest(Message):
    """Recovery when the access token expired: a signature over context, agent id, nonce and join sequence."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    agent_id: ShortText
    nonce: Nonce
    join_seq: int = Field(ge=1)
    signature: Base64Signature


class Refusal(StrEnum):
    """Why the control plane refuses an agent: the last segment (after `/` or `:`) of the problem body's `type`."""

    TOKEN_UNKNOWN = "token-unknown"  # noqa: S105
    TOKEN_EXPIRED = "token-expired"  # noqa: S105
    TOKEN_USED = "token-used"  # noqa: S105
    TOKEN_REVOKED = "token-revoked"  # noqa: S105
    TOKEN_SCOPE = "token-scope"  # noqa: S105
    """The token is for another serial number or network than this agent's."""
    CHALLENGE = "challenge"
    """The nonce is unknown, used or older than 60 s, or the signature over it is wrong: ask for a new one."""
    AGENT_PENDING = "agent-pending"
    AGENT_LOCKED = "agent-locked"
    AGENT_DENIED = "agent-denied"
    AGENT_REVOKED = "agent-revoked"
    AGENT_UNKNOWN = "agent-unknown"
    JOIN_SEQ_STALE = "join-seq-stale"


def enroll_payload(*, nonce: str, token_id: str, public_key: str) -> bytes:
    """Bytes the agent signs to enrol."""
    return b"\x00".join((ENROLL_CONTEXT, nonce.encode(), token_id.encode(), public_key.encode()))


def rejoin_payload(*, agent_id: str, nonce: str, join_seq: int) -> bytes:
    """Bytes the agent signs to recover with a new access token."""
    return b"\x00".join((REJOIN_CONTEXT, agent_id.encode(), nonce.encode(), str(join_seq).encode()))
