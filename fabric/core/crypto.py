"""Secrets: how tokens are made, kept and checked, and how fields are encrypted at rest.

A token reads `<prefix>_<key id>.<secret>`. The key id is public and finds the row; of the secret only an HMAC-SHA256
under a numbered pepper is kept, so that a copy of the database lets nobody in. The secret has 256 bits, hence no slow
hash is needed.
"""

import base64
import binascii
import hmac
import re
import secrets
import string
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

SECRET_BYTES = 32
_KEY_ID_ALPHABET = string.ascii_lowercase + string.digits
_TOKEN = re.compile(r"(?P<prefix>[a-z0-9]{2,8})_(?P<key_id>[a-z0-9]{4,16})\.(?P<secret>[A-Za-z0-9_-]{43})")
_NONCE_BYTES = 12
_HKDF_INFO = b"kvfabric field encryption v1"


class CryptoError(ValueError):
    """What was stored cannot be read: an unknown key, or it was altered or moved to another row or column."""


@dataclass(frozen=True, slots=True)
class MintedToken:
    """A new token. `text` goes to its owner once; `key_id`, `digest` and `pepper_id` are what may be stored."""

    text: str = field(repr=False)
    key_id: str
    digest: str
    pepper_id: str


def mint_token(prefix: str, *, key_id_chars: int = 12) -> MintedToken:
    """Make a token with a random public key id and a secret of 256 bits."""
    key_id = "".join(secrets.choice(_KEY_ID_ALPHABET) for _ in range(key_id_chars))
    secret = secrets.token_urlsafe(SECRET_BYTES)
    pepper_id = settings.TOKEN_PEPPER_CURRENT
    return MintedToken(f"{prefix}_{key_id}.{secret}", key_id, token_digest(secret, pepper_id), pepper_id)


def split_token(text: str, prefix: str) -> tuple[str, str] | None:
    """Return (key id, secret) of a token with this prefix, or None when `text` is anything else."""
    found = _TOKEN.fullmatch(text)
    if found is None or found["prefix"] != prefix:
        return None
    return found["key_id"], found["secret"]


def token_digest(secret: str, pepper_id: str) -> str:
    """Return the HMAC-SHA256 (64 hex digits) of a token's secret. Raises `CryptoError` for an unknown pepper."""
    pepper = settings.TOKEN_PEPPERS.get(pepper_id)
    if pepper is None:
        raise CryptoError(f"pepper {pepper_id!r} is not configured")
    return hmac.new(pepper.encode(), secret.encode(errors="surrogatepass"), sha256).hexdigest()


def verify_token(secret: str, digest: str | None, pepper_id: str | None) -> bool:
    """Tell whether `secret` belongs to the stored digest, in constant time.

    Give `digest=None` when no row was found: the same work is done and the answer is False, so that timing does not
    tell an unknown key id from a wrong secret.
    """
    known = digest is not None and pepper_id in settings.TOKEN_PEPPERS
    computed = token_digest(secret, pepper_id if known and pepper_id else settings.TOKEN_PEPPER_CURRENT)
    return hmac.compare_digest(computed, digest if known and digest else "0" * 64) and known


def field_aad(table: str, column: str, pk: object) -> str:
    """Name the place of an encrypted field; a ciphertext opens only there."""
    return f"{table}:{column}:{pk}"


def encrypt_field(plaintext: bytes, *, aad: str) -> str:
    """Return `<key id>.<base64url of nonce and AES-256-GCM ciphertext>`, bound to `aad` (see `field_aad`)."""
    key_id = settings.FIELD_ENCRYPTION_CURRENT
    nonce = secrets.token_bytes(_NONCE_BYTES)
    sealed = nonce + AESGCM(_field_key(key_id)).encrypt(nonce, plaintext, aad.encode())
    return f"{key_id}.{base64.urlsafe_b64encode(sealed).decode()}"


def decrypt_field(stored: str, *, aad: str) -> bytes:
    """Return what `encrypt_field` sealed. Raises `CryptoError` when key, place or bytes are not the same."""
    key_id, _, sealed_text = stored.partition(".")
    try:
        sealed = base64.urlsafe_b64decode(sealed_text)
        return AESGCM(_field_key(key_id)).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], aad.encode())
    except (InvalidTag, binascii.Error, ValueError) as error:
        raise CryptoError(f"the encrypted field {aad} cannot be opened with key {key_id!r}") from error


def _field_key(key_id: str) -> bytes:
    """Derive the AES key of 32 bytes from the configured secret (HKDF, RFC 5869)."""
    material = settings.FIELD_ENCRYPTION_KEYS.get(key_id)
    if material is None:
        raise CryptoError(f"field encryption key {key_id!r} is not configured")
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_HKDF_INFO).derive(material.encode())
