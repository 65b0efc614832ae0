"""The control plane's signing keys, and the grants that they sign."""

import logging
import time
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.cache import cache
from django.db import transaction

from agent.protocol import Envelope, Grant, public_key_text
from fabric.agents.models import Agent, SigningKey
from fabric.audit.services import record
from fabric.core.actor import SYSTEM
from fabric.core.crypto import decrypt_field, encrypt_field, field_aad

logger = logging.getLogger(__name__)

FIRST_KID = "k1"
GRANT_LIFE_S = 300.0
GRANT_REUSED_S = 120.0
"""A grant is handed out again for so long: its bearer always has at least three minutes left."""


@dataclass(frozen=True, slots=True)
class SigningPair:
    """A signing key ready for use. The private half never leaves the process."""

    kid: str
    private_key: Ed25519PrivateKey = field(repr=False)


def active_signing_key() -> SigningPair:
    """Return the key that signs, making the first one at first use.

    Of several active keys the oldest signs: every agent that ever enrolled has pinned it. A newer one takes over when
    the older is deactivated, after agents have learnt it.
    """
    row = SigningKey.objects.filter(active=True).order_by("created_at", "kid").first() or _make_first_key()
    private = decrypt_field(row.private_key_encrypted, aad=_aad(row.kid))
    return SigningPair(row.kid, Ed25519PrivateKey.from_private_bytes(private))


def control_plane_keys() -> dict[str, str]:
    """Return the public keys (base64) that an agent pins at enrolment, by key id."""
    active_signing_key()
    return dict(SigningKey.objects.filter(active=True).order_by("created_at", "kid").values_list("kid", "public_key"))


def mint_read_grant(agent: Agent) -> str:
    """Return a bearer token (`kvg1.…`) that lets its holder read this agent's metrics, status and inventory for 3 to
    5 minutes.

    Grants are kept and handed out again for two minutes, so that a scrape each second costs no signature.
    """
    cache_key = f"agents.read_grant.{agent.pk}"
    kept: str | None = cache.get(cache_key)
    if kept is not None:
        return kept
    pair, now_s = active_signing_key(), time.time()
    grant = Grant(aud=str(agent.pk), iat_s=now_s, exp_s=now_s + GRANT_LIFE_S)
    bearer = Envelope.seal(grant, pair.private_key, pair.kid).bearer()
    cache.set(cache_key, bearer, GRANT_REUSED_S)
    return bearer


def _make_first_key() -> SigningKey:
    """Make the first key. Of two processes that do so at once, one inserts the row and both read it."""
    private = Ed25519PrivateKey.generate()
    with transaction.atomic():
        row, made = SigningKey.objects.get_or_create(
            kid=FIRST_KID,
            defaults={
                "public_key": public_key_text(private),
                "private_key_encrypted": encrypt_field(private.private_bytes_raw(), aad=_aad(FIRST_KID)),
            },
        )
        if made:
            after = {"public_key": row.public_key}
            record(actor=SYSTEM, verb="create", obj=row, before={}, after=after, reason="first signing key")
            logger.info("agents.signing_key.created kid=%s", row.kid)
    return row


def _aad(kid: str) -> str:
    return field_aad("agents_signingkey", "private_key_encrypted", kid)
