"""Query parameters of lists: every one is on a list of allowed ones, and an unknown one is an error."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters  # type: ignore[import-untyped]
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

PAGE_PARAMETERS = {"page", "page_size"}


class StrictFilterBackend(filters.DjangoFilterBackend):  # type: ignore[misc]
    """django-filter, but a parameter that no filter knows is refused: a misspelt filter would silently give
    everything.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        """Filter and order by the view's `filterset_class`."""
        filterset_class = self.get_filterset_class(view, queryset)
        known = set(filterset_class.base_filters) if filterset_class else set()
        unknown = sorted(set(request.query_params) - known - PAGE_PARAMETERS)
        if unknown:
            names = ", ".join(sorted(known | PAGE_PARAMETERS))
            raise ValidationError(
                {name[:64]: [f"there is no such parameter; there are: {names}"] for name in unknown[:5]}
            )
        filtered: QuerySet[Any] = super().filter_queryset(request, queryset, view)
        return filtered
