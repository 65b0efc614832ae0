"""Pages of agents: list, one agent, trust in it, and how another one joins."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from fabric.agents.domain import TRUST_TRANSITIONS, TrustVerb
from fabric.agents.filters import AgentFilter
from fabric.agents.forms import AgentForm, JoinTokenForm
from fabric.agents.models import Agent, AgentState
from fabric.agents.selectors import agent_detail, agents_for_list, join_tokens_for_list, overview_of
from fabric.agents.services import (
    approve_agent,
    create_join_token,
    delete_agent,
    revoke_agent,
    revoke_join_token,
    unlock_agent,
    update_agent,
)
from fabric.agents.tables import AgentTable, JoinTokenTable
from fabric.audit.selectors import audit_entries_for_object
from fabric.core.actor import Actor, Role
from fabric.core.web.forms import ReasonForm
from fabric.core.web.pages import HISTORY_ROWS, ActPage, Crumb, Empty, FormPage, Fragment, ListPage, Page, fingerprint

TRUST_SERVICES = {
    TrustVerb.APPROVE: approve_agent,
    TrustVerb.UNLOCK: unlock_agent,
    TrustVerb.REVOKE: revoke_agent,
}
TRUST_ROLES = {TrustVerb.APPROVE: Role.ADMIN, TrustVerb.UNLOCK: Role.ADMIN, TrustVerb.REVOKE: Role.OPERATOR}
"""For whom a button is shown; the services decide."""
TRUST_CONSEQUENCES = {
    TrustVerb.APPROVE: "It is believed from now on, takes the policy of its pool, and is measured.",
    TrustVerb.UNLOCK: "Its identity was seen twice. Unlock it only when you know which machine is the right one; "
    "that one must join again.",
    TrustVerb.REVOKE: "It is not believed any more and gets no policy; it goes on serving blocks until it is stopped. "
    "This cannot be undone: the machine can only join again as a new agent.",
}


class AgentList(ListPage):
    """Every agent."""

    title = "Agents"
    noun = "agents"
    intro = "An agent holds KV blocks on one machine, in DRAM and flash, under the policy of its pool."
    table_class = AgentTable
    filterset_class = AgentFilter

    def rows(self) -> QuerySet[Agent]:
        """Return all."""
        return agents_for_list(self.actor)

    def empty(self) -> Empty:
        """Say how one joins."""
        return Empty(
            "No agents yet",
            "Make a join token here, then start the agent on the machine with the memory. It shows up within seconds.",
            "agent",
            "Add an agent",
            reverse("agents:join"),
        )

    def page_actions(self) -> Sequence[dict[str, str]]:
        """Offer to add one."""
        return self.offer("Add an agent", "agents:join")


class AgentPage(Page):
    """Base of the pages of one agent."""

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list and the agent."""
        agent = agent_detail(self.actor, self.kwargs["pk"])
        return [Crumb("Agents", reverse("agents:list")), Crumb(agent.name, agent.get_absolute_url())]


class AgentDetail(AgentPage):
    """One agent: live charts, what it runs, its conditions and capabilities, trust."""

    template_name = "agents/detail.html"

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list."""
        return [Crumb("Agents", reverse("agents:list"))]

    def context(self) -> dict[str, Any]:
        """Read the agent."""
        context = status_context(self.actor, self.kwargs["pk"])
        agent: Agent = context["agent"]
        return {
            "title": agent.name,
            **context,
            "verbs": [v.value for v in TRUST_TRANSITIONS[agent.state] if self.actor.may(TRUST_ROLES[v])],
            "may_delete": self.may_operate and agent.state not in (AgentState.ACTIVE, AgentState.LOCKED),
            "history": audit_entries_for_object(self.actor, "agents.agent", agent.pk)[:HISTORY_ROWS],
        }


class AgentStatus(Fragment):
    """What it runs and reports, asked for again while the page is open."""

    template_name = "agents/_status.html"

    def context(self) -> dict[str, Any]:
        """Read it."""
        return status_context(self.actor, self.kwargs["pk"])


def status_context(actor: Actor, agent_id: UUID) -> dict[str, Any]:
    """Return what changes of an agent."""
    agent = agent_detail(actor, agent_id)
    overview = overview_of(agent, timezone.now())
    conditions = agent.status.get("conditions", [])
    facts = [agent.version, agent.state, agent.pool_id, overview.sync, agent.apply_problems, conditions]
    return {
        "agent": agent,
        "topic": f"agent:{agent.pk}",
        "sync": overview.sync.value,
        "tiers": overview.tiers,
        "conditions": conditions,
        "fingerprint": fingerprint([*facts, agent.desired_generation, agent.observed_generation]),
    }


class AgentEdit(AgentPage, FormPage):
    """Name and pool."""

    title = "Edit"
    form_class = AgentForm
    success = "Agent saved."

    def initial(self) -> dict[str, Any]:
        """Show what is."""
        agent = agent_detail(self.actor, self.kwargs["pk"])
        return {"name": agent.name, "pool": agent.pool_id, "expected_version": agent.version}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Change it and show it."""
        form = AgentForm(request.POST)
        return self.submit(form, lambda: self._update(form.facts()))

    def _update(self, facts: dict[str, Any]) -> HttpResponse:
        agent = update_agent(actor=self.actor, agent_id=self.kwargs["pk"], **facts)
        return HttpResponseRedirect(agent.get_absolute_url())


class AgentDelete(AgentPage, ActPage):
    """Forget an agent that is not trusted."""

    title = "Delete"
    form_class = ReasonForm
    verb_label = "Delete agent"
    success = "The agent is forgotten."

    def question(self) -> str:
        """Ask."""
        return f"Delete agent {agent_detail(self.actor, self.kwargs['pk']).name}?"

    def consequence(self) -> str:
        """Say what follows."""
        return "It vanishes with its part in past rollouts; the audit log keeps what was done. This cannot be undone."

    def back_url(self) -> str:
        """Return the agent."""
        return reverse("agents:detail", args=[self.kwargs["pk"]])

    def act(self, data: dict[str, Any]) -> str:
        """Delete it."""
        delete_agent(actor=self.actor, agent_id=self.kwargs["pk"], reason=data["reason"])
        return reverse("agents:list")


class TrustAgent(AgentPage, ActPage):
    """Approve, unlock or revoke."""

    form_class = ReasonForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Refuse a word that is no verb."""
        if kwargs["verb"] not in set(TrustVerb):
            raise Http404("There is no such verb.")
        return super().dispatch(request, *args, **kwargs)

    @property
    def verb(self) -> TrustVerb:
        """The verb of the address."""
        return TrustVerb(self.kwargs["verb"])

    def context(self) -> dict[str, Any]:
        """Name the page after its verb."""
        return {"title": self.verb.value.capitalize()}

    def button(self) -> tuple[str, bool]:
        """Return the verb; only approving is harmless."""
        return f"{self.verb.value.capitalize()} agent", self.verb is not TrustVerb.APPROVE

    def question(self) -> str:
        """Ask."""
        return f"{self.verb.value.capitalize()} agent {agent_detail(self.actor, self.kwargs['pk']).name}?"

    def consequence(self) -> str:
        """Say what follows."""
        return TRUST_CONSEQUENCES[self.verb]

    def back_url(self) -> str:
        """Return the agent."""
        return reverse("agents:detail", args=[self.kwargs["pk"]])

    def act(self, data: dict[str, Any]) -> str:
        """Do it."""
        TRUST_SERVICES[self.verb](actor=self.actor, agent_id=self.kwargs["pk"], reason=data["reason"])
        return self.back_url()


@method_decorator(never_cache, name="dispatch")
class JoinPage(FormPage):
    """Add an agent: a join token, shown once, in the command that uses it."""

    template_name = "agents/join.html"
    title = "Add an agent"
    role = Role.OPERATOR
    form_class = JoinTokenForm
    submit_label = "Make a join token"

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list."""
        return [Crumb("Agents", reverse("agents:list"))]

    def initial(self) -> dict[str, Any]:
        """Take over the pool that the link named."""
        return {"pool": self.request.GET.get("pool", "")[:36]}

    def context(self) -> dict[str, Any]:
        """Show earlier tokens too."""
        tokens = self.paged(JoinTokenTable(join_tokens_for_list(self.actor)), per_page=20)
        return {"tokens": tokens}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Make the token and show it, once: this answer holds its only copy."""
        form = JoinTokenForm(request.POST)
        return self.submit(form, lambda: self._make(form))

    def _make(self, form: JoinTokenForm) -> HttpResponse:
        minted = create_join_token(actor=self.actor, **form.facts())
        command = join_command(minted.text, minted.token.name)
        return self.render(form=JoinTokenForm(), minted=minted, command=command, submit_label=self.submit_label)


def join_command(token: str, name: str) -> str:
    """Return what to type on the agent's machine. The token goes into a file: a process list must not show it."""
    safe_name = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    return (
        f"umask 077 && printf %s '{token}' > join-token\n"
        f"KVAGENT_NAME={safe_name} \\\n"
        f"KVAGENT_CONTROL_PLANE_URL={settings.PUBLIC_URL} \\\n"
        "KVAGENT_JOIN_TOKEN_FILE=join-token \\\n"
        "KVAGENT_STATE_DIR=var/agents/" + safe_name + " \\\n"
        "KVAGENT_DRAM_LIMIT_BYTES=64GiB KVAGENT_FLASH_LIMIT_BYTES=1TiB \\\n"
        "python -m agent"
    )


class RevokeJoinToken(ActPage):
    """End a join token."""

    title = "Revoke join token"
    verb_label = "Revoke token"
    success = "The token is revoked."
    form_class = ReasonForm

    def crumbs(self) -> Sequence[Crumb]:
        """Return the way back."""
        return [Crumb("Agents", reverse("agents:list")), Crumb("Add an agent", reverse("agents:join"))]

    def question(self) -> str:
        """Ask."""
        token = join_tokens_for_list(self.actor).filter(pk=self.kwargs["pk"]).first()
        return f"Revoke join token {token}?" if token else "Revoke this join token?"

    def consequence(self) -> str:
        """Say what follows."""
        return "Nobody can join with it any more. Agents that have joined stay."

    def back_url(self) -> str:
        """Return the page of tokens."""
        return reverse("agents:join")

    def act(self, data: dict[str, Any]) -> str:
        """Revoke it."""
        revoke_join_token(actor=self.actor, token_id=self.kwargs["pk"], reason=data["reason"])
        return self.back_url()
