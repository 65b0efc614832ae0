"""Tables of pools."""

from typing import Any

from django.utils.safestring import SafeString

from fabric.core.web.tables import DASH, Column, LinkColumn, NumberColumn, Table
from fabric.core.web.text import badge
from fabric.pools.models import Pool


class PoolTable(Table):
    """Pools with their agents and policy."""

    name = LinkColumn()
    pod = Column(linkify=True, order_by=("pod__site__name", "pod__name"))
    agent_count = NumberColumn(verbose_name="Agents")
    active_agent_count = NumberColumn(verbose_name="Active")
    policy = Column(empty_values=(), orderable=False)

    class Meta(Table.Meta):
        model = Pool
        fields = ("name", "pod", "agent_count", "active_agent_count", "policy", "description")
        order_by = "name"

    def render_policy(self, record: Any) -> SafeString | str:
        """Return the revision that the pool runs."""
        running = getattr(record, "pool_policy", None)
        if running is None:
            return DASH
        return badge(
            str(running.current_revision or f"{running.policy.name}, not rolled out"),
            tone="ok" if running.current_revision else "idle",
        )
