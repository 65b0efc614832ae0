"""The overview with its live charts, what other pages need to show charts, and the search over everything."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, QuerySet
from django.urls import reverse

from fabric.agents.selectors import agents_for_list, agents_for_overview
from fabric.core.actor import Actor
from fabric.core.web.filters import MAX_SEARCH_CHARS, words_in
from fabric.core.web.pages import Fragment, Page, fingerprint
from fabric.inventory.selectors import (
    dpus_for_list,
    hosts_for_list,
    pods_for_list,
    sites_for_list,
    ssds_for_list,
    switches_for_list,
)
from fabric.policies.selectors import policies_for_list
from fabric.pools.selectors import pools_for_list
from fabric.rollouts.domain import OPEN_ROLLOUT
from fabric.rollouts.selectors import rollouts_for_overview

MAX_HITS = 10
MAX_POOLS = 12
MAX_AGENTS = 50
_DEVICE = ("name", "serial", "model", "manufacturer")


class Overview(Page):
    """Is it well, is it worth it, what changed: the page that stays open."""

    template_name = "telemetry/overview.html"
    title = "Overview"

    def context(self) -> dict[str, Any]:
        """Read what stands beside the charts."""
        return {"topic": "overview", **status_context(self.actor)}


class OverviewStatus(Fragment):
    """What stands beside the charts, asked for again while the page is open."""

    template_name = "telemetry/_status.html"

    def context(self) -> dict[str, Any]:
        """Read it."""
        return status_context(self.actor)


def status_context(actor: Actor) -> dict[str, Any]:
    """Return agents with their sync states, what is stored, which pool runs what, and open rollouts."""
    agents = agents_for_overview(actor)
    tiers = [tier for entry in agents for tier in entry.tiers.values()]
    policies = [row for policy in policies_for_list(actor) for row in policy.pool_policies.all()][:MAX_POOLS]
    rollouts = list(rollouts_for_overview(actor).filter(state__in=OPEN_ROLLOUT)[:MAX_POOLS])
    facts: list[Any] = [(e.agent.pk, e.sync, e.age_s is None) for e in agents]
    facts += [(row.pool_id, row.policy_id, row.current_revision_id) for row in policies]
    facts += [(rollout.pk, rollout.state) for rollout in rollouts]
    return {
        "agents": agents[:MAX_AGENTS],
        "agents_total": len(agents),
        "states": Counter("unreachable" if e.age_s is None or e.sync == "unreachable" else "live" for e in agents),
        "stored_blocks": sum(tier["stored_blocks"] for tier in tiers),
        "stored_bytes": sum(tier["stored_bytes"] for tier in tiers),
        "policies": policies,
        "open_rollouts": rollouts,
        "fingerprint": fingerprint(facts),
    }


@dataclass(frozen=True, slots=True)
class Hits:
    """What a search found among one sort of thing."""

    label: str
    icon: str
    rows: list[Model]
    more_url: str


class Search(Page):
    """Names, serials and addresses of everything, on one page."""

    template_name = "telemetry/search.html"
    title = "Search"

    def context(self) -> dict[str, Any]:
        """Look in every list; at most a few rows of each."""
        query = self.request.GET.get("q", "").strip()[:MAX_SEARCH_CHARS]
        found = list(hits_for(self.actor, query)) if query else []
        return {"query": query, "found": found, "count": sum(len(hits.rows) for hits in found)}


def hits_for(actor: Actor, query: str) -> Iterable[Hits]:
    """Yield what `query` finds, sort by sort; sorts without a hit are left out."""
    places: list[tuple[str, str, QuerySet[Any], tuple[str, ...], str]] = [
        ("Agents", "agent", agents_for_list(actor), ("name", "hostname", "serial", "manage_url"), "agents:list"),
        ("Pools", "pool", pools_for_list(actor), ("name", "description"), "pools:list"),
        ("Policies", "policy", policies_for_list(actor), ("name", "description"), "policies:list"),
        ("Sites", "site", sites_for_list(actor), ("name", "description"), "inventory:sites"),
        ("Pods", "pod", pods_for_list(actor), ("name", "description"), "inventory:pods"),
        ("Hosts", "host", hosts_for_list(actor), (*_DEVICE, "cpu_model"), "inventory:hosts"),
        ("DPUs", "dpu", dpus_for_list(actor), (*_DEVICE, "base_mac"), "inventory:dpus"),
        ("SSDs", "ssd", ssds_for_list(actor), (*_DEVICE, "nqn"), "inventory:ssds"),
        ("Switches", "switch", switches_for_list(actor), (*_DEVICE, "management_address"), "inventory:switches"),
    ]
    for label, icon, rows, fields, url_name in places:
        found = list(rows.filter(words_in(query, fields))[: MAX_HITS + 1])
        if found:
            more = reverse(url_name, query={"q": query}) if len(found) > MAX_HITS else ""
            yield Hits(label, icon, found[:MAX_HITS], more)
