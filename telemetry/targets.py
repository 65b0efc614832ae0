"""What to scrape: every active agent, with a signed grant, and the registered targets, with their own token."""

import logging
from dataclasses import dataclass, field
from uuid import UUID

from fabric.agents.selectors import scrape_targets_for_agents
from fabric.agents.services import mint_read_grant
from fabric.core.crypto import CryptoError
from fabric.pools.models import Pool
from telemetry.models import ScrapeTarget, TargetKind
from telemetry.series.store import SourceKey
from telemetry.services import bearer_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint to scrape. `key` names its source for ever; `url_path` is its page, for marks on charts."""

    key: str
    name: str
    kind: str
    url: str
    bearer: str = field(repr=False, default="")
    agent_id: UUID | None = None
    pool_id: UUID | None = None
    host_id: UUID | None = None
    page_url: str = ""
    problem: str = ""
    """Why it cannot be scraped at all, as a reason code; empty otherwise."""

    @property
    def source(self) -> SourceKey:
        """Whose samples its answers are."""
        return SourceKey(self.key, self.name, self.kind, self.agent_id, self.pool_id, self.host_id)

    @property
    def is_agent(self) -> bool:
        """True for an enrolled agent's own endpoint."""
        return self.key.startswith("agent:")


@dataclass(frozen=True, slots=True)
class Inventory:
    """All targets, and the pools that have a live stream of their own."""

    targets: tuple[Target, ...] = ()
    pool_ids: tuple[UUID, ...] = ()


def load_inventory() -> Inventory:
    """Read what to scrape now. Raises `django.db.Error` when the database does not answer."""
    return Inventory((*_agents(), *_registered()), tuple(Pool.objects.order_by("pk").values_list("pk", flat=True)))


def _agents() -> list[Target]:
    found = []
    for entry in scrape_targets_for_agents():
        bearer, problem = "", ""
        try:
            bearer = mint_read_grant(entry.agent)
        except CryptoError as error:
            logger.error("no read grant for agent %s: %s", entry.name, error)
            problem = "credentials_unreadable"
        found.append(
            Target(
                f"agent:{entry.agent_id}",
                entry.name,
                TargetKind.AGENT.value,
                entry.metrics_url,
                bearer,
                agent_id=entry.agent_id,
                pool_id=entry.pool_id,
                host_id=entry.agent.host_id,
                page_url=entry.agent.get_absolute_url(),
                problem=problem,
            )
        )
    return found


def _registered() -> list[Target]:
    found = []
    for row in ScrapeTarget.objects.filter(enabled=True).select_related("agent").order_by("name"):
        bearer, problem = "", ""
        try:
            bearer = bearer_of(row)
        except CryptoError as error:
            logger.error("bearer token of target %s: %s", row.name, error)
            problem = "credentials_unreadable"
        found.append(
            Target(
                f"target:{row.pk}",
                row.name,
                row.kind,
                row.url,
                bearer,
                agent_id=row.agent_id,
                pool_id=row.pool_id or (row.agent.pool_id if row.agent else None),
                host_id=row.agent.host_id if row.agent else None,
                problem=problem,
            )
        )
    return found
