"""Wire messages between the control plane and a storage agent, version 1: all that others may import of the agent.

Who is who:
- the agent proves itself to the control plane with an opaque access token (and, to enrol or recover, its Ed25519 key);
- the control plane proves itself to the agent with its own Ed25519 key, pinned by the agent at enrolment. It signs
  *envelopes* (a desired policy) and *grants* (short-lived permission to read `/metrics` and status).

Paths on the control plane (all POST):
- `/agent/v1/enroll/challenge`: `ChallengeRequest` → `ChallengeReply`;
- `/agent/v1/enroll`: `EnrollRequest` → `EnrollReply`;
- `/agent/v1/heartbeat` (`Authorization: Bearer kva1_…`): `Heartbeat` → `HeartbeatReply`;
- `/agent/v1/rejoin/challenge`: `RejoinChallengeRequest` → `ChallengeReply`;
- `/agent/v1/rejoin`: `RejoinRequest` → `EnrollReply` with the next `join_seq`. An agent rejoins when a heartbeat is
  answered 401.

Paths on the agent: `PUT /manage/v1/desired` (`Envelope` → `ApplyReply`), `GET /manage/v1/status`,
`GET /manage/v1/inventory`, `GET /metrics`, `GET /livez`, `GET /readyz`. A push is answered 200 when the policy is in
force (also when it was before), 409 when it is stale, 422 when it is refused; the problem body of the last two holds
the fields of `ApplyReply` too. 403 means that the envelope is not to be believed.
"""

from agent.protocol.base import (
    MAX_BODY_BYTES,
    PROTOCOL_VERSION,
    Base64Key,
    Digest,
    FieldProblem,
    Message,
    ProtocolError,
    load_public_key,
    public_key_text,
    sign,
    verify,
)
from agent.protocol.desired import CLOCK_TOLERANCE_S, ApplyReply, ApplyState, Desired, Envelope, Grant
from agent.protocol.join import (
    Capabilities,
    ChallengeReply,
    ChallengeRequest,
    EnrollReply,
    EnrollRequest,
    Refusal,
    RejoinChallengeRequest,
    RejoinRequest,
    enroll_payload,
    rejoin_payload,
)
from agent.protocol.report import (
    BlockDeviceFact,
    Condition,
    Heartbeat,
    HeartbeatReply,
    HostInventory,
    NetworkDeviceFact,
    Status,
    TierUsage,
)

__all__ = [
    "CLOCK_TOLERANCE_S",
    "MAX_BODY_BYTES",
    "PROTOCOL_VERSION",
    "ApplyReply",
    "ApplyState",
    "Base64Key",
    "BlockDeviceFact",
    "Capabilities",
    "ChallengeReply",
    "ChallengeRequest",
    "Condition",
    "Desired",
    "Digest",
    "EnrollReply",
    "EnrollRequest",
    "Envelope",
    "FieldProblem",
    "Grant",
    "Heartbeat",
    "HeartbeatReply",
    "HostInventory",
    "Message",
    "NetworkDeviceFact",
    "ProtocolError",
    "Refusal",
    "RejoinChallengeRequest",
    "RejoinRequest",
    "Status",
    "TierUsage",
    "enroll_payload",
    "load_public_key",
    "public_key_text",
    "rejoin_payload",
    "sign",
    "verify",
]
