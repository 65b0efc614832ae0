"""What the control plane signs: the desired policy and the permission to read, and the agent's answer to a push."""

import base64
import binascii
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import Field, StringConstraints, ValidationError

from agent.protocol.base import (
    Base64Signature,
    Digest,
    FieldProblem,
    Message,
    ProtocolError,
    ShortText,
    b64,
    load_public_key,
)
from kvcache.canonical import canonical_json

CLOCK_TOLERANCE_S = 600.0
"""Time is only a loose bound; the growing generation is what stops a replay."""
MAX_BEARER_CHARS = 4096
_BEARER = re.compile(r"kvg1\.([A-Za-z0-9_-]+)")


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
    signature: Base64Signature

    @classmethod
    def seal(cls, message: "Desired | Grant", key: Ed25519PrivateKey, kid: str) -> Self:
        """Sign `message` with `key`, named `kid` to whoever opens it."""
        payload = canonical_json(message.model_dump(mode="json"))
        return cls(kid=kid, payload=b64(payload), signature=b64(key.sign(payload)))

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
        found = _BEARER.fullmatch(token) if len(token) <= MAX_BEARER_CHARS else None
        if found is None:
            raise ProtocolError("the bearer token is not a read grant (kvg1.…)")
        try:
            return cls.model_validate_json(base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
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


class ApplyState(StrEnum):
    """What an agent did with a desired policy."""

    APPLIED = "applied"
    STALE = "stale"
    REFUSED = "refused"


class ApplyReply(Message):
    """Answer to a push: what the agent now runs, whatever it was asked for."""

    state: ApplyState
    observed_generation: int = Field(ge=0)
    applied_digest: Digest | None = None
    problems: list[FieldProblem] = []

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """Parse the answer to a push, be it a plain reply (200) or a problem body (409, 422).

        Raises:
            ValidationError: the body is neither.
        """
        return cls.model_validate({name: body[name] for name in cls.model_fields if name in body})


def _b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
