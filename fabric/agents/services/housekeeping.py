"""Throwing away what has expired."""

from django.utils import timezone

from fabric.agents.models import AccessToken, Challenge


def purge_expired() -> tuple[int, int]:
    """Delete nonces and access tokens that have expired; return how many of each. Join tokens stay on record."""
    now = timezone.now()
    challenges, _ = Challenge.objects.filter(expires_at__lte=now).delete()
    tokens, _ = AccessToken.objects.filter(expires_at__lte=now).delete()
    return challenges, tokens
