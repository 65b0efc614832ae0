"""Wire messages between the control plane and a storage agent, version 1: the only module of the agent that others import.

Who is who:
- the agent proves itself to the control plane with an opaque access token (and, to enrol or recover, its Ed25519 key);
- the control plane proves itself to the agent with its own Ed25519 key, pinned by the agent at enrolment. It signs
  *envelopes* (a desired policy) and *grants* (short-lived permission to read `/metrics` and status).

Paths on the control plane: `POST /agent/v1/enroll/challenge`, `/agent/v1/enroll`, `/agent/v1/heartbeat`, `/agent/v1/rejoin`.
Paths on the agent: `PUT /manage/v1/desired`, `GET /manage/v1/status`, `GET /manage/v1/inventory`, `GET /metrics`,
`GET /livez`, `GET /readyz`.
"""

import base64
import binascii
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kvcache.canonical import canonical_json

PROTOCOL_VERSION: Literal["v1"] = "v1"
ENROLL_CONTEXT = b"kvf-enroll-v1"
REJOIN_CONTEXT = b"kvf-rejoin-v1"
MAX_BODY_BYTES = 1 << 20
"""No message of this protocol is larger; both sides refuse to read past it."""

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Base64Key = Annotated[str, StringConstraints(min_length=44, max_length=44, pattern=r"^[A-Za-z0-9+/]{43}=$")]
ShortText = Annotated[str, StringConstraints(max_length=255)]


class ProtocolError(ValueError):
    """A message that must not be believed: unsigned, wrongly signed, for someone else, expired or malformed."""


class Message(BaseModel):
    """Base of every message: unknown fields are refused, so a typo is an error and not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# --- enrolment -------------------------------------------------------------------------------------------------------


class ChallengeRequest(Message):
    """Step 1. The agent names its join token (public part only) and its public key."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    token_id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{8}$")]
    public_key: Base64Key


class ChallengeReply(Message):
    """A single-use nonce that lives 60 s."""

    nonce: Annotated[str, StringConstraints(min_length=32, max_length=64)]
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
    """Step 2. The token's secret and a signature over context, nonce, token id and public key (see `enroll_payload`)."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    token_id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{8}$")]
    token_secret: Annotated[str, StringConstraints(min_length=20, max_length=100)]
    public_key: Base64Key
    nonce: Annotated[str, StringConstraints(min_length=32, max_length=64)]
    signature: Annotated[str, StringConstraints(min_length=88, max_length=88)]
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
    control_plane_keys: dict[str, Base64Key]
    join_seq: int = Field(ge=1)
    heartbeat_interval_s: float = Field(gt=0)
    server_time_s: float


class RejoinRequest(Message):
    """Recovery when the access token expired: a signature over context, agent id, nonce and join sequence."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    agent_id: ShortText
    nonce: Annotated[str, StringConstraints(min_length=32, max_length=64)]
    join_seq: int = Field(ge=1)
    signature: Annotated[str, StringConstraints(min_length=88, max_length=88)]


# --- desired policy --------------------------------------------------------------------------------------------------


class Desired(Message):
    """What a signed envelope carries: the document an agent must run, under a generation that only ever grows.

    The control plane's only signed message is this one and `Grant`; `purpose` keeps one from passing for the other.
    """

    purpose: Literal["desired"] = "desired"
    aud: ShortText
    generation: int = Field(ge=1)
    digest: Digest
    document: dict[str, Any]
    nonce: Annotated[str, StringConstraints(min_length=16, max_length=64)]
    iat_s: float
    exp_s: float


class Grant(Message):
    """Short-lived permission to read an agent (metrics, status, inventory), signed by the control plane."""

    purpose: Literal["read"] = "read"
    aud: ShortText
    iat_s: float
    exp_s: float


M = TypeVar("M", Desired, Grant)


class Envelope(Message):
    """Canonical JSON of a `Desired` or `Grant` (base64), the signing key's id and an Ed25519 signature (base64)."""

    kid: ShortText
    payload: str
    signature: Annotated[str, StringConstraints(min_length=88, max_length=88)]

    @classmethod
    def seal(cls, message: "Desired | Grant", key: Ed25519PrivateKey, kid: str) -> Self:
        """Sign `message` with `key`, named `kid` to whoever opens it."""
        payload = canonical_json(message.model_dump(mode="json"))
        return cls(kid=kid, payload=_b64(payload), signature=_b64(key.sign(payload)))

    def open_desired(self, *, keys: dict[str, str], audience: str, now_s: float | None) -> Desired:
        """Return the desired policy inside; `now_s=None` skips the loose time bound (agent's clock known bad).

        Raises:
            ProtocolError: unknown key, bad signature, other audience or purpose, expired.
        """
        return self._open(Desired, keys, audience, now_s)

    def open_grant(self, *, keys: dict[str, str], audience: str, now_s: float) -> Grant:
        """Return the read grant inside. Raises `ProtocolError` as `open_desired` does."""
        return self._open(Grant, keys, audience, now_s)

    def bearer(self) -> str:
        """Return the envelope as one token for an `Authorization: Bearer` header."""
        return "kvg1." + _b64url(canonical_json(self.model_dump()))

    @classmethod
    def from_bearer(cls, token: str) -> Self:
        """Parse what `bearer` made. Raises `ProtocolError` when it is anything else."""
        prefix, _, body = token.partition(".")
        if prefix != "kvg1" or len(token) > 4096:
            raise ProtocolError("the bearer token is not a read grant (kvg1.…)")
        try:
            return cls.model_validate_json(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        except (ValidationError, binascii.Error, ValueError) as error:
            raise ProtocolError("the read grant is malformed") from error

    def _open(self, kind: type[M], keys: dict[str, str], audience: str, now_s: float | None) -> M:
        public = keys.get(self.kid)
        if public is None:
            raise ProtocolError(f"signed by key {self.kid!r}, which this agent does not know")
        try:
            payload = base64.b64decode(self.payload, validate=True)
            load_public_key(public).verify(base64.b64decode(self.signature, validate=True), payload)
            message = kind.model_validate_json(payload)
        except InvalidSignature as error:
            raise ProtocolError("the signature does not match the payload") from error
        except (binascii.Error, ValidationError, ValueError) as error:
            raise ProtocolError(f"the payload is not a {kind.__name__.lower()} message of protocol v1") from error
        if message.aud != audience:
            raise ProtocolError(f"meant for agent {message.aud!r}, not for this one")
        if now_s is not None and not message.iat_s - CLOCK_TOLERANCE_S <= now_s <= message.exp_s + CLOCK_TOLERANCE_S:
            raise ProtocolError("outside its time of validity (check this machine's clock)")
        return message


CLOCK_TOLERANCE_S = 600.0
"""Time is only a loose bound; the growing generation is what stops a replay."""


class ApplyState(StrEnum):
    """What an agent did with a desired policy."""

    APPLIED = "applied"
    STALE = "stale"
    REFUSED = "refused"


class FieldProblem(Message):
    """One field that cannot hold here: where, why, and what would be right."""

    field: str
    problem: str
    remedy: str = ""


class ApplyReply(Message):
    """Answer to a push: what the agent now runs, whatever it was asked for."""

    state: ApplyState
    observed_generation: int = Field(ge=0)
    applied_digest: Digest | None = None
    problems: list[FieldProblem] = []


# --- status and heartbeat --------------------------------------------------------------------------------------------


class TierUsage(Message):
    """Bytes and blocks of one tier now, against what the policy allows and the agent's own limit."""

    tier: Literal["dram", "flash"]
    stored_bytes: int = Field(ge=0)
    stored_blocks: int = Field(ge=0)
    capacity_bytes: int = Field(ge=0)
    limit_bytes: int = Field(ge=0)


class Condition(Message):
    """Something an operator should know, machine-readable: type, since when, in words."""

    type: ShortText
    status: Literal["true", "false", "unknown"]
    reason: ShortText
    message: str = ""
    since_s: float


class Status(Message):
    """What the agent is and runs."""

    agent_id: ShortText
    version: ShortText
    boot_id: ShortText
    started_at_s: float
    observed_generation: int = Field(ge=0)
    applied_digest: Digest | None = None
    tiers: list[TierUsage] = []
    conditions: list[Condition] = []


class Heartbeat(Message):
    """Sent every `heartbeat_interval_s`; `seq` grows by one each, and a gap makes the server ask for the full state."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    seq: int = Field(ge=1)
    join_seq: int = Field(ge=1)
    agent_time_s: float
    status: Status
    capabilities: Capabilities | None = None
    inventory: "HostInventory | None" = None


class HeartbeatReply(Message):
    """The second, independent way a policy reaches an agent: whatever it should run and does not."""

    server_time_s: float
    desired: Envelope | None = None
    send_full: bool = False
    access_token: ShortText | None = None
    access_token_expires_s: float | None = None


# --- discovery -------------------------------------------------------------------------------------------------------


class BlockDeviceFact(Message):
    """One disk as sysfs shows it. An absent fact is None, never 0 or an empty text."""

    name: ShortText
    transport: ShortText | None = None
    model: ShortText | None = None
    serial: ShortText | None = None
    firmware: ShortText | None = None
    nqn: ShortText | None = None
    capacity_bytes: int | None = Field(default=None, ge=0)
    logical_block_bytes: int | None = Field(default=None, ge=0)
    rotational: bool | None = None
    temperature_c: float | None = None


class NetworkDeviceFact(Message):
    """One network interface; `kind` tells physical from virtual, `dpu_model` is set where the device is a known DPU."""

    name: ShortText
    kind: Literal["physical", "virtual", "loopback"]
    mac: ShortText | None = None
    speed_mbps: int | None = Field(default=None, ge=0)
    mtu: int | None = Field(default=None, ge=0)
    state: ShortText | None = None
    driver: ShortText | None = None
    pci_vendor: ShortText | None = None
    pci_device: ShortText | None = None
    dpu_model: ShortText | None = None


class HostInventory(Message):
    """What the agent's host is, read without root; `source` says by what means, `observed_at_s` when."""

    source: ShortText
    observed_at_s: float
    hostname: ShortText
    machine_id_hash: ShortText | None = None
    vendor: ShortText | None = None
    product: ShortText | None = None
    serial: ShortText | None = None
    os: ShortText | None = None
    kernel: ShortText | None = None
    architecture: ShortText | None = None
    cpu_model: ShortText | None = None
    cpu_threads: int | None = Field(default=None, ge=0)
    memory_bytes: int | None = Field(default=None, ge=0)
    rapl_domains: list[ShortText] = []
    block_devices: list[BlockDeviceFact] = []
    network_devices: list[NetworkDeviceFact] = []


Heartbeat.model_rebuild()


# --- keys and signatures ---------------------------------------------------------------------------------------------


def enroll_payload(*, nonce: str, token_id: str, public_key: str) -> bytes:
    """Bytes the agent signs to enrol."""
    return b"\x00".join((ENROLL_CONTEXT, nonce.encode(), token_id.encode(), public_key.encode()))


def rejoin_payload(*, agent_id: str, nonce: str, join_seq: int) -> bytes:
    """Bytes the agent signs to recover with a new access token."""
    return b"\x00".join((REJOIN_CONTEXT, agent_id.encode(), nonce.encode(), str(join_seq).encode()))


def sign(key: Ed25519PrivateKey, payload: bytes) -> str:
    """Return the base64 Ed25519 signature of `payload`."""
    return _b64(key.sign(payload))


def verify(public_key: str, payload: bytes, signature: str) -> bool:
    """Tell whether `signature` (base64) over `payload` was made by the holder of `public_key` (base64)."""
    try:
        load_public_key(public_key).verify(base64.b64decode(signature, validate=True), payload)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def public_key_text(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """Return the raw public key as base64."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    return _b64(public.public_bytes(Encoding.Raw, PublicFormat.Raw))


def load_public_key(text: str) -> Ed25519PublicKey:
    """Parse a base64 raw public key. Raises `ValueError` when it is not 32 bytes."""
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
