"""Reads of telemetry. Any signed-in role may watch; who may see which pool or agent is decided here, for REST, pages
and open sockets alike.
"""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import QuerySet

from fabric.agents.selectors import agents_for_list
from fabric.core.actor import Actor, Role
from fabric.core.errors import NotFound
from fabric.pools.selectors import pools_for_list
from telemetry.domain import Topic, TopicKind
from telemetry.models import ScrapeTarget, Source


def scrape_targets_for_list(actor: Actor) -> QuerySet[ScrapeTarget]:
    """Return every registered target to those who may change them; nothing to viewers. Never the bearer token."""
    rows = ScrapeTarget.objects.select_related("agent", "pool").order_by("name")
    return rows if actor.may(Role.OPERATOR) else rows.none()


def visible_topics(actor: Actor, topics: Iterable[Topic]) -> set[Topic]:
    """Return those of `topics` whose object exists and which `actor` may see."""
    wanted = set(topics)
    ids = {kind: {t.id for t in wanted if t.kind is kind and t.id} for kind in TopicKind}
    seen: dict[TopicKind, set[UUID | None]] = {TopicKind.OVERVIEW: {None}}
    if ids[TopicKind.POOL]:
        seen[TopicKind.POOL] = set(
            pools_for_list(actor).filter(pk__in=ids[TopicKind.POOL]).values_list("pk", flat=True)
        )
    if ids[TopicKind.AGENT]:
        agents = agents_for_list(actor).filter(pk__in=ids[TopicKind.AGENT])
        seen[TopicKind.AGENT] = set(agents.values_list("pk", flat=True))
    return {topic for topic in wanted if topic.id in seen.get(topic.kind, ())}


def check_topic(actor: Actor, topic: Topic) -> Topic:
    """Return `topic`. Raises `NotFound` when its object does not exist or `actor` may not see it."""
    if topic not in visible_topics(actor, [topic]):
        raise NotFound(f"There is no such {topic.kind.value}, or none that you may see.")
    return topic


def sources_for_topic(actor: Actor, topic: Topic) -> QuerySet[Source]:
    """Return whose samples a topic is made of: all, those of a pool, or one agent's. Raises as `check_topic` does."""
    check_topic(actor, topic)
    if topic.kind is TopicKind.POOL:
        return Source.objects.filter(pool_id=topic.id)
    if topic.kind is TopicKind.AGENT:
        return Source.objects.filter(agent_id=topic.id)
    return Source.objects.all()
