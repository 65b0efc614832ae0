"""Who may go on watching: sessions, people and topics of open sockets, looked at again and again."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from fabric.core.actor import Actor
from fabric.core.api.principals import Principal
from telemetry.domain import Topic
from telemetry.selectors import visible_topics

RECHECK_EVERY_S = 5.0
RECHECK_GRACE_S = 300.0
"""Without a database nobody can be asked; sockets that were let in stay for so long, then they are closed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a session may do now: its actor (None: nothing at all) and which of its topics are still visible."""

    actor: Actor | None
    topics: frozenset[Topic]


@database_sync_to_async
def judge(sessions: Mapping[str, Collection[Topic]]) -> dict[str, Verdict]:
    """Return the verdict on each session key with the topics it watches. Raises `django.db.Error`."""
    verdicts = {}
    for key, topics in sessions.items():
        actor = actor_of_session(key)
        seen = visible_topics(actor, topics) if actor is not None and topics else set()
        verdicts[key] = Verdict(actor, frozenset(seen))
    return verdicts


@database_sync_to_async
def may_watch(actor: Actor, topic: Topic) -> bool:
    """Tell whether `actor` may subscribe to `topic`. Raises `django.db.Error`."""
    return topic in visible_topics(actor, [topic])


def actor_of_session(key: str) -> Actor | None:
    """Return who is signed in under a session key now: the session lives, its hash fits, the user is active."""
    if not key:
        return None
    request = HttpRequest()
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore
    request.session = store(session_key=key)
    user = get_user(request)
    if not user.is_authenticated or not user.is_active or not isinstance(user, Principal):
        return None
    return user.as_actor()
