"""Pages of policies: list, one policy with its revisions, writing a revision, and what a revision would change
where.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from fabric.audit.selectors import audit_entries_for_object
from fabric.core.web.forms import Form
from fabric.core.web.pages import HISTORY_ROWS, ActPage, Crumb, Empty, FormPage, ListPage, Page
from fabric.policies.filters import PolicyFilter
from fabric.policies.forms import PolicyDocumentForm, PolicyForm, PolicyTextForm
from fabric.policies.models import Policy, PoolPolicy, Revision
from fabric.policies.selectors import (
    latest_revision,
    policies_for_list,
    policy_detail,
    policy_schema,
    pool_policy_for_pool,
    problems_for_pool,
    revision_detail,
    revision_diff,
    revisions_for_policy,
)
from fabric.policies.services import create_policy, delete_policy, update_policy, write_revision
from fabric.policies.tables import PolicyTable, RevisionTable
from fabric.pools.models import Pool
from fabric.pools.selectors import pools_for_list
from kvcache.policy import FieldChange, default_policy, parse_policy

MAX_POOLS_SHOWN = 20


class PolicyList(ListPage):
    """Every policy."""

    title = "Policies"
    noun = "policies"
    intro = "What each tier keeps and for how long. A policy is a line of revisions; a rollout carries one to a pool."
    table_class = PolicyTable
    filterset_class = PolicyFilter

    def rows(self) -> QuerySet[Policy]:
        """Return all."""
        return policies_for_list(self.actor)

    def empty(self) -> Empty:
        """Say what a policy is."""
        return Empty(
            "No policies yet",
            "A policy says how much of each agent's DRAM and flash keeps KV blocks, which leave first, and after "
            "how long. Agents without one run a quarter of their DRAM and half of their flash, LRU.",
            "policy",
            "New policy",
            reverse("policies:create"),
        )

    def page_actions(self) -> Sequence[dict[str, str]]:
        """Offer a new one."""
        return self.offer("New policy", "policies:create")


class PolicyPage(Page):
    """Base of the pages of one policy."""

    @property
    def policy(self) -> Policy:
        """The policy of the address."""
        return policy_detail(self.actor, self.kwargs["pk"])

    def crumbs(self) -> list[Crumb]:
        """Return the list and the policy."""
        policy = self.policy
        return [Crumb("Policies", reverse("policies:list")), Crumb(policy.name, policy.get_absolute_url())]


class PolicyDetail(PolicyPage):
    """One policy: its newest document, where it runs, its revisions, its history."""

    template_name = "policies/detail.html"

    def crumbs(self) -> list[Crumb]:
        """Return the list."""
        return [Crumb("Policies", reverse("policies:list"))]

    def context(self) -> dict[str, Any]:
        """Read the policy."""
        policy = self.policy
        table = RevisionTable(revisions_for_policy(self.actor, policy.pk))
        return {
            "title": policy.name,
            "policy": policy,
            "latest": latest_revision(self.actor, policy.pk),
            "table": self.paged(table),
            "history": audit_entries_for_object(self.actor, "policies.policy", policy.pk)[:HISTORY_ROWS],
        }


class PolicyCreate(FormPage):
    """A new policy; its first revision is written next."""

    title = "New policy"
    form_class = PolicyForm
    submit_label = "Create policy"

    def crumbs(self) -> list[Crumb]:
        """Return the list."""
        return [Crumb("Policies", reverse("policies:list"))]

    def save(self, data: dict[str, Any]) -> HttpResponse:
        """Create, then go on to its document."""
        policy = create_policy(actor=self.actor, name=data["name"], description=data["description"])
        return HttpResponseRedirect(reverse("policies:edit", args=[policy.pk]))


class PolicyRename(PolicyPage, FormPage):
    """Name and description."""

    title = "Rename"
    form_class = PolicyForm
    success = "Saved."

    def initial(self) -> dict[str, Any]:
        """Show what is."""
        policy = self.policy
        return {"name": policy.name, "description": policy.description, "expected_version": policy.version}

    def save(self, data: dict[str, Any]) -> HttpResponse:
        """Change it."""
        policy = update_policy(actor=self.actor, policy_id=self.kwargs["pk"], **data)
        return HttpResponseRedirect(policy.get_absolute_url())


class PolicyDelete(PolicyPage, ActPage):
    """Remove a policy that never went out."""

    title = "Delete"
    verb_label = "Delete policy"

    def question(self) -> str:
        """Ask."""
        return f"Delete policy {self.policy.name} and all of its revisions?"

    def consequence(self) -> str:
        """Say what follows."""
        return "This cannot be undone. A policy that a pool runs or that was ever rolled out is kept."

    def back_url(self) -> str:
        """Return the policy's page."""
        return self.policy.get_absolute_url()

    def act(self, data: dict[str, Any]) -> str:
        """Delete it."""
        delete_policy(actor=self.actor, policy_id=self.kwargs["pk"])
        return reverse("policies:list")


class PolicyEdit(PolicyPage, FormPage):
    """The document as fields. Saving writes a new revision; agents change only with a rollout."""

    title = "Edit document"
    template_name = "policies/edit.html"
    form_class = PolicyDocumentForm
    submit_label = "Save as new revision"

    def form_options(self) -> dict[str, Any]:
        """Show the newest document, or the defaults."""
        latest = latest_revision(self.actor, self.kwargs["pk"])
        document = parse_policy(latest.document) if latest else default_policy()
        return {"schema": policy_schema(), "document": document.as_dict()}

    def initial(self) -> dict[str, Any]:
        """Remember which state of the policy was read."""
        return {"expected_version": self.policy.version}

    def context(self) -> dict[str, Any]:
        """Name the policy and its newest revision."""
        return {"policy": self.policy, "latest": latest_revision(self.actor, self.kwargs["pk"]), "as_text": False}

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """Check the fields, write the revision, show what it would change."""
        form = self.form(request.POST)
        return self.submit(form, lambda: self._write(form))

    def _write(self, form: Form) -> HttpResponse:
        assert isinstance(form, PolicyDocumentForm)
        data = form.cleaned_data
        revision = write_revision(
            actor=self.actor,
            policy_id=self.kwargs["pk"],
            document=form.document(),
            note=data["note"],
            expected_version=data["expected_version"],
        )
        return HttpResponseRedirect(revision.get_absolute_url())


class PolicyEditText(PolicyPage, FormPage):
    """The document as text."""

    title = "Edit document"
    template_name = "policies/edit.html"
    form_class = PolicyTextForm
    submit_label = "Save as new revision"

    def initial(self) -> dict[str, Any]:
        """Show the newest document, or the defaults, as YAML."""
        latest = latest_revision(self.actor, self.kwargs["pk"])
        document = latest.document if latest else default_policy().as_dict()
        return {"expected_version": self.policy.version, "text": document_text(document)}

    def context(self) -> dict[str, Any]:
        """Name the policy and its newest revision."""
        return {"policy": self.policy, "latest": latest_revision(self.actor, self.kwargs["pk"]), "as_text": True}

    def save(self, data: dict[str, Any]) -> HttpResponse:
        """Write the revision, show what it would change."""
        revision = write_revision(actor=self.actor, policy_id=self.kwargs["pk"], **data)
        return HttpResponseRedirect(revision.get_absolute_url())


@dataclass(frozen=True, slots=True)
class Effect:
    """What rolling a revision out to a pool would change there."""

    pool: Pool
    running: PoolPolicy | None
    runs_this: bool
    changes: list[FieldChange]
    problems: list[Any]


class RevisionDetail(PolicyPage):
    """One revision: its document, what it changes against what each pool runs, and the button that starts a rollout."""

    template_name = "policies/revision.html"

    def context(self) -> dict[str, Any]:
        """Read the revision and compare it."""
        revision = revision_detail(self.actor, self.kwargs["pk"], self.kwargs["number"])
        before = revisions_for_policy(self.actor, revision.policy_id).filter(number__lt=revision.number).first()
        pools = list(pools_for_list(self.actor)[:MAX_POOLS_SHOWN])
        effects = [self._effect(revision, pool) for pool in pools]
        effects.sort(key=lambda e: not (e.running and e.running.policy_id == revision.policy_id))
        return {
            "title": f"{revision.policy.name} r{revision.number}",
            "revision": revision,
            "text": document_text(revision.document),
            "before": before,
            "changes": revision_diff(before, revision) if before else [],
            "effects": effects,
        }

    def _effect(self, revision: Revision, pool: Pool) -> Effect:
        running = pool_policy_for_pool(self.actor, pool.pk)
        current = running.current_revision if running else None
        return Effect(
            pool=pool,
            running=running,
            runs_this=current is not None and current.pk == revision.pk,
            changes=revision_diff(current, revision) if current else [],
            problems=problems_for_pool(parse_policy(revision.document), pool),
        )


def document_text(document: Any) -> str:
    """Return a document as YAML in the order in which its fields are defined."""
    return yaml.safe_dump(parse_policy(document).as_dict(), sort_keys=False, allow_unicode=True)
