"""Nonces of enrolment and rejoin: bound to who asked, used once, 60 s."""

import secrets

from django.utils import timezone

from agent.protocol import Refusal
from fabric.agents.domain import CHALLENGE_LIFE
from fabric.agents.models import Challenge
from fabric.agents.services.refusals import Refused
from fabric.core.errors import TooManyAttempts

MAX_OPEN = 10_000
"""Nonces waiting at once; strangers can ask for them, so their number is bounded."""


def make_challenge(*, purpose: str, subject: str) -> str:
    """Store and return a nonce for `purpose` (`enroll`, `rejoin`) and whoever it is for. Raises `TooManyAttempts`."""
    if Challenge.objects.filter(expires_at__gt=timezone.now()).count() >= MAX_OPEN:
        raise TooManyAttempts("Too many agents are joining at once.", int(CHALLENGE_LIFE.total_seconds()))
    nonce = secrets.token_urlsafe(32)
    Challenge.objects.create(nonce=nonce, purpose=purpose, subject=subject, expires_at=timezone.now() + CHALLENGE_LIFE)
    return nonce


def use_challenge(*, purpose: str, subject: str, nonce: str) -> None:
    """Use up a nonce. It is gone for good, whatever comes of the request. Raises `Refused` (challenge)."""
    used, _ = Challenge.objects.filter(
        nonce=nonce, purpose=purpose, subject=subject, expires_at__gt=timezone.now()
    ).delete()
    if used != 1:
        raise Refused(Refusal.CHALLENGE)
