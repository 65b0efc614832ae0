"""Reads of accounts."""

from django.db.models import Q, QuerySet

from fabric.accounts.models import ApiToken, User
from fabric.core.actor import Actor, ActorKind, Role


def users_for_list(actor: Actor) -> QuerySet[User]:
    """Return every person to admins, to others only themselves, by name."""
    users = User.objects.defer("password").order_by("username")
    if actor.may(Role.ADMIN):
        return users
    return users.filter(_is_self(actor))


def api_tokens_for_list(actor: Actor) -> QuerySet[ApiToken]:
    """Return every token to admins, to others only their own, newest first; never a digest."""
    tokens = ApiToken.objects.select_related("user").defer("digest", "pepper_id").order_by("-created_at")
    if actor.may(Role.ADMIN):
        return tokens
    return tokens.filter(user__in=User.objects.filter(_is_self(actor)))


def api_token_by_key(key_id: str) -> ApiToken | None:
    """Return the token with this public key id and its owner, or None."""
    return ApiToken.objects.select_related("user").filter(key_id=key_id).first()


def _is_self(actor: Actor) -> Q:
    if actor.kind is ActorKind.USER:
        return Q(pk=actor.id)
    if actor.kind is ActorKind.TOKEN:
        return Q(pk__in=ApiToken.objects.filter(pk=actor.id).values("user_id"))
    return Q(pk__in=[])
