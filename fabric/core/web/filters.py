"""Filters of lists: one search box over several fields, choices, days."""

from datetime import date, datetime, time, timedelta
from typing import Any, ClassVar

import django_filters  # type: ignore[import-untyped]
from django import forms
from django.db.models import Q, QuerySet

from fabric.core.web.request import zone_of

CharFilter = django_filters.CharFilter
ChoiceFilter = django_filters.ChoiceFilter
ModelChoiceFilter = django_filters.ModelChoiceFilter
MAX_SEARCH_CHARS = 100


class SearchInput(forms.TextInput):
    """A search box."""

    input_type = "search"


class DateFilter(django_filters.DateFilter):  # type: ignore[misc]
    """A day, chosen with the browser's own calendar."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=forms.DateInput(attrs={"type": "date"}), **options)


class FilterSet(django_filters.FilterSet):  # type: ignore[misc]
    """A filter set with `q`, which looks for its words in every field of `search_fields`."""

    search_fields: ClassVar[tuple[str, ...]] = ("name",)
    search_hint: ClassVar[str] = "Name"
    q = django_filters.CharFilter(method="search", label="Search", max_length=MAX_SEARCH_CHARS, widget=SearchInput)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.form.fields["q"].widget.attrs["placeholder"] = self.search_hint

    def search(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        """Keep rows in which each word occurs in one of the fields."""
        return queryset.filter(words_in(value, self.search_fields))

    def is_narrowed(self) -> bool:
        """Tell whether any filter is in use."""
        return any(self.form[name].data not in (None, "", []) for name in self.form.fields)

    def start_of(self, day: date, days_later: int = 0) -> datetime:
        """Return midnight of a day in the reader's time zone."""
        return datetime.combine(day + timedelta(days=days_later), time(), zone_of(self.request.user))


def words_in(text: str, fields: tuple[str, ...]) -> Q:
    """Return the condition that each word of `text` occurs in one of `fields`, whatever its case."""
    condition = Q()
    for word in text.split()[:8]:
        any_field = Q()
        for field in fields:
            any_field |= Q(**{f"{field}__icontains": word})
        condition &= any_field
    return condition
