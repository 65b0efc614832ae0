"""Tables of agents and join tokens."""

from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fabric.agents.models import Agent, JoinToken
from fabric.agents.selectors import sync_state, tiers_of
from fabric.core.web.tables import DASH, Column, LinkColumn, MonoColumn, NumberColumn, StateColumn, Table, TimeColumn
from fabric.core.web.text import badge, state_badge


class AgentTable(Table):
    """Agents: trust, what they run against what they should run, how full they are."""

    name = LinkColumn()
    pool = Column(linkify=True, order_by="pool__name")
    host = Column(linkify=True, order_by="host__name")
    state = StateColumn(verbose_name="Trust")
    sync = Column(empty_values=(), orderable=False, verbose_name="Policy")
    desired_generation = NumberColumn(verbose_name="Desired")
    observed_generation = NumberColumn(verbose_name="Observed")
    last_heartbeat_at = TimeColumn(verbose_name="Heartbeat", default="never")
    usage = Column(empty_values=(), orderable=False, verbose_name="Memory")

    class Meta(Table.Meta):
        model = Agent
        fields = (
            "name",
            "pool",
            "host",
            "state",
            "sync",
            "desired_generation",
            "observed_generation",
            "last_heartbeat_at",
            "usage",
        )
        order_by = "name"

    def render_state(self, record: Agent) -> SafeString:
        """Return the trust state in words."""
        return badge(str(record.get_state_display()), tone_value=record.state)

    def value_state(self, record: Agent) -> str:
        """Return the state's word."""
        return record.state

    def render_sync(self, record: Agent) -> SafeString:
        """Return the sync state: in sync needs generation, digest and a fresh heartbeat."""
        return state_badge(sync_state(record, timezone.now()).value)

    def value_sync(self, record: Agent) -> str:
        """Return the sync state's word."""
        return sync_state(record, timezone.now()).value

    def render_usage(self, record: Agent) -> SafeString | str:
        """Return how full each tier is."""
        rows = tiers_of(record.status).items()
        return (
            format_html_join(
                "",
                "{}",
                ((render_to_string("components/usage.html", usage_context(tier, use)),) for tier, use in rows),
            )
            or DASH
        )

    def value_usage(self, record: Agent) -> str:
        """Return stored and allowed bytes of each tier."""
        return "; ".join(f"{t} {u['stored_bytes']}/{u['capacity_bytes']}" for t, u in tiers_of(record.status).items())


def usage_context(tier: str, use: Any) -> dict[str, Any]:
    """Return what the usage bar's template takes."""
    used, capacity = use["stored_bytes"], use["capacity_bytes"]
    ratio = 100 * used / capacity if capacity else 0
    return {"tier": tier, "used": used, "capacity": capacity, "known": True, "percent": round(ratio, 1)}


class JoinTokenTable(Table):
    """Join tokens: never their secret."""

    noun = "tokens"
    token_id = MonoColumn(verbose_name="Token")
    pool = Column(linkify=True)
    uses = Column(verbose_name="Used", orderable=False)
    state = Column(empty_values=(), orderable=False)
    expires_at = TimeColumn(verbose_name="Expires")
    created_by = Column(verbose_name="Made by")
    act = Column(empty_values=(), orderable=False, verbose_name="")

    class Meta(Table.Meta):
        model = JoinToken
        fields = ("name", "token_id", "pool", "uses", "state", "expires_at", "created_by", "act")
        prefix = "tokens-"

    def render_uses(self, record: JoinToken) -> str:
        """Return for example `1 of 1`."""
        return f"{record.uses} of {record.max_uses}"

    def render_state(self, record: JoinToken) -> SafeString:
        """Return whether somebody may still join with it."""
        if record.revoked_at:
            return badge("revoked", tone="bad")
        if record.expires_at <= timezone.now():
            return badge("expired", tone="idle")
        return badge("used up", tone="idle") if record.uses >= record.max_uses else badge("open", tone="ok")

    def render_act(self, record: JoinToken) -> SafeString | str:
        """Return the way to revoke one that is still open."""
        if record.revoked_at or record.expires_at <= timezone.now() or record.uses >= record.max_uses:
            return ""
        url = reverse("agents:revoke-token", args=[record.pk])
        return format_html('<a class="button small danger" href="{}" data-confirm>Revoke</a>', url)
