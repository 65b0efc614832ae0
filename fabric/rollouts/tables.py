"""Tables of rollouts and their targets."""

from django.utils.html import format_html
from django.utils.safestring import SafeString

from fabric.core.web.tables import Column, StateColumn, Table, TimeColumn
from fabric.rollouts.models import Rollout


class RolloutTable(Table):
    """Rollouts, newest first, with how far each has come."""

    revision = Column(
        linkify=lambda record: record.get_absolute_url(), order_by=("revision__policy__name", "revision__number")
    )
    pool = Column(linkify=lambda record: record.pool.get_absolute_url(), order_by="pool__name")
    state = StateColumn()
    progress = Column(empty_values=(), orderable=False, verbose_name="In sync")
    created_at = TimeColumn(verbose_name="Started")
    started_by = Column(verbose_name="By")
    ended_at = TimeColumn(verbose_name="Ended")

    class Meta(Table.Meta):
        model = Rollout
        fields = ("revision", "pool", "state", "progress", "created_at", "started_by", "ended_at", "reason")
        order_by = "-created_at"

    def render_progress(self, record: Rollout) -> SafeString:
        """Return how many of the agents are in sync."""
        done, total = getattr(record, "targets_in_sync", 0), getattr(record, "targets_total", 0)
        return format_html(
            '<div class="usage two"><progress max="{0}" value="{1}" aria-label="{1} of {0} in sync"></progress>'
            "<span>{1} / {0}</span></div>",
            total or 1,
            done,
        )

    def value_progress(self, record: Rollout) -> str:
        """Return the fraction for exports."""
        return f"{getattr(record, 'targets_in_sync', 0)} of {getattr(record, 'targets_total', 0)}"
