"""The audit log as a table."""

import json
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from fabric.audit.models import AuditEntry
from fabric.core.web.tables import Column, Table, TimeColumn


class AuditTable(Table):
    """Who did what to which object, what changed, and why."""

    at = TimeColumn(verbose_name="When")
    actor_name = Column(verbose_name="Who")
    verb = Column(verbose_name="Did")
    object_label = Column(verbose_name="To")
    changes = Column(empty_values=(), orderable=False, verbose_name="What changed")
    reason = Column(verbose_name="Why", orderable=False)

    class Meta(Table.Meta):
        model = AuditEntry
        fields = ("at", "actor_name", "verb", "object_label", "changes", "reason")

    def render_actor_name(self, record: AuditEntry) -> SafeString:
        """Return the name, and what sort of actor it is where it is no person."""
        kind = "" if record.actor_kind == "user" else f" ({record.actor_kind})"
        return format_html('{}<span class="muted">{}</span>', record.actor_name, kind)

    def render_verb(self, value: str) -> str:
        """Return the verb in words."""
        return value.replace("_", " ")

    def render_object_label(self, record: AuditEntry) -> SafeString:
        """Return the object with its type."""
        kind = record.object_type.rsplit(".", 1)[-1]
        return format_html('<span class="muted">{}</span> {}', kind, record.object_label)

    def render_changes(self, record: AuditEntry) -> SafeString:
        """Return what changed, folded up: rows stay one line high."""
        lines = change_lines(record.before, record.after)
        if not lines:
            return format_html('<span class="muted">{}</span>', "–")
        body = "\n".join(f"{name}: {before} → {after}" for name, before, after in lines)
        names = ", ".join(name for name, _, _ in lines)
        summary = names if len(names) <= 40 else f"{len(lines)} fields"
        return format_html('<details><summary>{}</summary><pre class="small">{}</pre></details>', summary, body)

    def value_changes(self, record: AuditEntry) -> str:
        """Return what changed as JSON for exports."""
        return json.dumps({"before": record.before, "after": record.after}, ensure_ascii=False)


def change_lines(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (field, before, after) of each field that differs, as text."""
    names = dict.fromkeys([*before, *after])
    return [(n, _text(before.get(n)), _text(after.get(n))) for n in names if before.get(n) != after.get(n)]


def _text(value: Any) -> str:
    if value is None or value == "":
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
