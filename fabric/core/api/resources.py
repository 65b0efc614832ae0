"""OpenAPI of the usual five operations, for view sets that go through services."""

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.serializers import BaseSerializer

View = TypeVar("View", bound=type)
Output = type[BaseSerializer[Any]]


def resource_schema(noun: str, output: Output, create: Output, update: Output) -> Callable[[View], View]:
    """Describe list, retrieve, create, partial_update and destroy of `noun` (singular, lower case)."""
    gone = OpenApiResponse(description="Removed.")
    return extend_schema_view(
        list=extend_schema(summary=f"List {noun}s", responses=output(many=True)),
        retrieve=extend_schema(summary=f"Read one {noun}", responses=output),
        create=extend_schema(summary=f"Make a {noun}", request=create, responses={201: output}),
        partial_update=extend_schema(summary=f"Change a {noun}", request=update(partial=True), responses=output),
        destroy=extend_schema(summary=f"Remove a {noun}", responses={204: gone}),
    )
