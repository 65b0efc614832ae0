"""Tables of policies and revisions."""

from typing import Any

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from fabric.core.web.tables import DASH, Column, LinkColumn, MonoColumn, NumberColumn, Table, TimeColumn
from fabric.policies.models import Policy, Revision


class PolicyTable(Table):
    """Policies: newest revision, and which pools run which."""

    name = LinkColumn()
    latest_number = NumberColumn(verbose_name="Newest revision")
    pools = Column(empty_values=(), orderable=False, verbose_name="Pools that run it")
    updated_at = TimeColumn(verbose_name="Changed")

    class Meta(Table.Meta):
        model = Policy
        fields = ("name", "latest_number", "pools", "description", "updated_at")
        order_by = "name"

    def render_latest_number(self, value: int) -> str:
        """Return for example `r3`."""
        return f"r{value}"

    def render_pools(self, record: Any) -> SafeString | str:
        """Return the pools with the revision that each runs."""
        rows = [
            (
                row.pool.get_absolute_url(),
                row.pool.name,
                f"r{row.current_revision.number}" if row.current_revision else "none yet",
            )
            for row in record.pool_policies.all()
        ]
        return format_html_join(", ", '<a href="{}">{}</a> ({})', rows) or DASH


class RevisionTable(Table):
    """Revisions of one policy, newest first."""

    noun = "revisions"
    number = LinkColumn(verbose_name="Revision")
    digest = MonoColumn()
    created_at = TimeColumn(verbose_name="Written")
    created_by = Column(verbose_name="By")

    class Meta(Table.Meta):
        model = Revision
        fields = ("number", "note", "digest", "created_by", "created_at")
        order_by = "-number"

    def render_number(self, value: int) -> str:
        """Return for example `r3`."""
        return f"r{value}"

    def render_digest(self, value: str) -> SafeString:
        """Return the digest's first characters, which tell two apart."""
        return MonoColumn().render(value.removeprefix("sha256:")[:12])
