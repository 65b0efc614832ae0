"""Pages of pools."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from fabric.audit.selectors import audit_entries_for_object
from fabric.core.actor import Actor
from fabric.core.web.forms import ReasonForm
from fabric.core.web.pages import HISTORY_ROWS, ActPage, Crumb, Empty, FormPage, Fragment, ListPage, Page, fingerprint
from fabric.pools.filters import PoolFilter
from fabric.pools.forms import PoolForm
from fabric.pools.models import Pool
from fabric.pools.selectors import pool_detail, pool_summary, pools_for_list
from fabric.pools.services import create_pool, delete_pool, update_pool
from fabric.pools.tables import PoolTable

MAX_ROLLOUTS = 10


class PoolList(ListPage):
    """Every pool."""

    title = "Pools"
    noun = "pools"
    intro = "A pool is a set of agents that run one policy: the unit that rollouts go to."
    table_class = PoolTable
    filterset_class = PoolFilter

    def rows(self) -> QuerySet[Pool]:
        """Return all, with the policies that they run."""
        return pools_for_list(self.actor).select_related(
            "pod__site", "pool_policy__policy", "pool_policy__current_revision__policy"
        )

    def empty(self) -> Empty:
        """Say what a pool is."""
        return Empty(
            "No pools yet",
            "Agents of one pool keep KV blocks under one policy. Make a pool, then add agents to it with a join token.",
            "pool",
            "New pool",
            reverse("pools:create"),
        )

    def page_actions(self) -> Sequence[dict[str, str]]:
        """Offer a new one."""
        return self.offer("New pool", "pools:create")


class PoolPage(Page):
    """Base of the pages of one pool."""

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list and the pool."""
        pool = pool_detail(self.actor, self.kwargs["pk"])
        return [Crumb("Pools", reverse("pools:list")), Crumb(pool.name, pool.get_absolute_url())]


class PoolDetail(PoolPage):
    """One pool: capacity, live charts, members, policy, rollouts."""

    template_name = "pools/detail.html"

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list."""
        return [Crumb("Pools", reverse("pools:list"))]

    def context(self) -> dict[str, Any]:
        """Read the pool."""
        context = status_context(self.actor, self.kwargs["pk"])
        pool: Any = context["pool"]
        return {
            "title": pool.name,
            **context,
            "rollouts": pool.rollouts.select_related("revision__policy", "pool")[:MAX_ROLLOUTS],
            "history": audit_entries_for_object(self.actor, "pools.pool", pool.pk)[:HISTORY_ROWS],
        }


class PoolStatus(Fragment):
    """Capacity, policy and members, asked for again while the page is open."""

    template_name = "pools/_status.html"

    def context(self) -> dict[str, Any]:
        """Read them."""
        return status_context(self.actor, self.kwargs["pk"])


def status_context(actor: Actor, pool_id: UUID) -> dict[str, Any]:
    """Return what changes of a pool. Members and policy lie in apps above: their rows come through its relations."""
    summary = pool_summary(actor, pool_id)
    pool: Any = summary.pool
    members = list(pool.agents.order_by("name"))
    running = getattr(pool, "pool_policy", None)
    facts: list[Any] = [(a.pk, a.state, a.desired_generation, a.observed_generation) for a in members]
    facts += [pool.version, running and running.current_revision_id]
    return {
        "pool": pool,
        "summary": summary,
        "topic": f"pool:{pool.pk}",
        "members": members,
        "running": running,
        "fingerprint": fingerprint(facts),
    }


class PoolCreate(FormPage):
    """A new pool."""

    title = "New pool"
    form_class = PoolForm
    submit_label = "Create pool"

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list."""
        return [Crumb("Pools", reverse("pools:list"))]

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Create it and show it."""
        form = PoolForm(request.POST)
        return self.submit(form, lambda: self._create(form.facts()))

    def _create(self, facts: dict[str, Any]) -> HttpResponse:
        facts.pop("expected_version")
        return HttpResponseRedirect(create_pool(actor=self.actor, **facts).get_absolute_url())


class PoolEdit(PoolPage, FormPage):
    """Name, pod, description."""

    title = "Edit"
    form_class = PoolForm
    success = "Pool saved."

    def initial(self) -> dict[str, Any]:
        """Show what is."""
        pool = pool_detail(self.actor, self.kwargs["pk"])
        return {
            "name": pool.name,
            "pod": pool.pod_id,
            "description": pool.description,
            "expected_version": pool.version,
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Change it and show it."""
        form = PoolForm(request.POST)
        return self.submit(form, lambda: self._update(form.facts()))

    def _update(self, facts: dict[str, Any]) -> HttpResponse:
        pool = update_pool(actor=self.actor, pool_id=self.kwargs["pk"], **facts)
        return HttpResponseRedirect(pool.get_absolute_url())


class PoolDelete(PoolPage, ActPage):
    """Remove an empty pool."""

    title = "Delete"
    form_class = ReasonForm
    verb_label = "Delete pool"
    success = "The pool is deleted."

    def question(self) -> str:
        """Ask."""
        return f"Delete pool {pool_detail(self.actor, self.kwargs['pk']).name}?"

    def consequence(self) -> str:
        """Say what follows."""
        return "Only a pool without agents and without rollouts on record can go. This cannot be undone."

    def back_url(self) -> str:
        """Return the pool's page."""
        return reverse("pools:detail", args=[self.kwargs["pk"]])

    def act(self, data: dict[str, Any]) -> str:
        """Delete it."""
        delete_pool(actor=self.actor, pool_id=self.kwargs["pk"], reason=data["reason"])
        return reverse("pools:list")
