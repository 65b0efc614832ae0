"""Tables: our base and columns for what occurs everywhere (links, times, sizes, states)."""

from datetime import datetime
from typing import Any

import django_tables2 as tables
from django.core.paginator import EmptyPage, PageNotAnInteger, Paginator
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fabric.core.web.request import zone_of
from fabric.core.web.text import ago, badge, bytes_text, state_badge

Column = tables.Column
DASH = "–"


class Table(tables.Table):  # type: ignore[misc]
    """A dense table. Subclasses name a model or a sequence of columns in `Meta`. `noun` is what its rows are called."""

    noun = "rows"

    class Meta:
        attrs = {"class": "data"}
        default = DASH

    def paginate_safely(self, page: int, per_page: int) -> None:
        """Show a page; a number past the end shows the last one."""
        self.paginator = Paginator(self.rows, per_page)
        try:
            self.page = self.paginator.page(page)
        except (EmptyPage, PageNotAnInteger):
            self.page = self.paginator.page(self.paginator.num_pages)


class LinkColumn(tables.Column):  # type: ignore[misc]
    """The row's name, linked to its page."""

    def __init__(self, **options: Any) -> None:
        super().__init__(linkify=True, **options)


class TimeColumn(tables.Column):  # type: ignore[misc]
    """How long ago, with the moment itself in the reader's time zone as title."""

    def __init__(self, **options: Any) -> None:
        super().__init__(attrs={"td": {"class": "nowrap"}}, **options)

    def render(self, value: datetime, table: Table) -> SafeString:
        """Return the `<time>` element."""
        return ago(value, zone_of(table.request.user))

    def value(self, value: datetime | None) -> str:
        """Return ISO 8601 for exports."""
        return value.isoformat() if value else ""


class BytesColumn(tables.Column):  # type: ignore[misc]
    """A size in binary units; plain bytes in exports."""

    attrs = {"td": {"class": "number"}, "th": {"class": "number"}}

    def __init__(self, **options: Any) -> None:
        super().__init__(attrs=self.attrs, **options)

    def render(self, value: int) -> str:
        """Return for example `1.5 GiB`."""
        return bytes_text(value)

    def value(self, value: int | None) -> Any:
        """Return the bytes."""
        return value


class NumberColumn(tables.Column):  # type: ignore[misc]
    """A plain number, aligned right."""

    def __init__(self, **options: Any) -> None:
        super().__init__(attrs={"td": {"class": "number"}, "th": {"class": "number"}}, **options)


class StateColumn(tables.Column):  # type: ignore[misc]
    """A state as a badge of its colour and its word; the label is the choice's where the field has choices."""

    def render(self, value: Any, record: Any, bound_column: Any) -> SafeString:
        """Return the badge."""
        raw = getattr(record, bound_column.accessor, value)
        return badge(str(value), tone_value=str(raw))

    def value(self, value: Any) -> str:
        """Return the word."""
        return str(value)


class MonoColumn(tables.Column):  # type: ignore[misc]
    """Identifiers and addresses in a fixed-width face."""

    def render(self, value: Any) -> SafeString:
        """Return the code element."""
        return format_html("<code>{}</code>", value)

    def value(self, value: Any) -> str:
        """Return the text."""
        return "" if value is None else str(value)


__all__ = [
    "DASH",
    "BytesColumn",
    "Column",
    "LinkColumn",
    "MonoColumn",
    "NumberColumn",
    "StateColumn",
    "Table",
    "TimeColumn",
    "state_badge",
]
