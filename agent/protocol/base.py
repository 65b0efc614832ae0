"""What every message of the protocol shares: strict parsing, limits, keys and signatures."""

import base64
import binascii
from typing import Annotated, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import BaseModel, ConfigDict, StringConstraints

PROTOCOL_VERSION: Literal["v1"] = "v1"
MAX_BODY_BYTES = 1 << 20
"""No message of this protocol is larger; both sides refuse to read past it."""

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Base64Key = Annotated[str, StringConstraints(min_length=44, max_length=44, pattern=r"^[A-Za-z0-9+/]{43}=$")]
Base64Signature = Annotated[str, StringConstraints(min_length=88, max_length=88)]
ShortText = Annotated[str, StringConstraints(max_length=255)]


class ProtocolError(ValueError):
    """A message that must not be believed: unsigned, wrongly signed, for someone else, expired or malformed."""


class Message(BaseModel):
    """Base of every message: unknown fields are refused, so a typo is an error and not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FieldProblem(Message):
    """One field that cannot hold here: where, why, and what would be right."""

    field: str
    problem: str
    remedy: str = ""


def sign(key: Ed25519PrivateKey, payload: bytes) -> str:
    """Return the base64 Ed25519 signature of `payload`."""
    return b64(key.sign(payload))


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
    return b64(public.public_bytes(Encoding.Raw, PublicFormat.Raw))


def load_public_key(text: str) -> Ed25519PublicKey:
    """Parse a base64 raw public key. Raises `ValueError` when it is not 32 bytes."""
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))


def b64(data: bytes) -> str:
    """Return `data` as standard base64 text."""
    return base64.b64encode(data).decode()
