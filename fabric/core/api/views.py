"""Bases of view sets: parse, one call, render. What may be read and written stands in selectors and services."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from rest_framework import status
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer
from rest_framework.viewsets import GenericViewSet

from fabric.core.actor import SYSTEM, Actor, Role
from fabric.core.api.etags import etag_of, expected_version
from fabric.core.api.filters import StrictFilterBackend
from fabric.core.api.parsers import BoundedJSONParser
from fabric.core.api.principals import actor_of
from fabric.core.api.schema import FabricAutoSchema
from fabric.core.api.serializers import parsed
from fabric.core.errors import NotFound
from fabric.core.models import Versioned


class FabricViewSet(GenericViewSet[Any]):
    """Base of every view set. `read_role` and `write_role` are what its safe and its other methods need."""

    schema = FabricAutoSchema()
    parser_classes = [BoundedJSONParser]
    metadata_class = None
    filter_backends = [StrictFilterBackend]
    read_role: ClassVar[Role] = Role.VIEWER
    write_role: ClassVar[Role] = Role.OPERATOR
    versioned: ClassVar[bool] = False
    versioned_actions: ClassVar[frozenset[str]] = frozenset()
    """Further actions, beside PATCH and DELETE, that need `If-Match`."""
    lookup_value_converter = "uuid"

    @property
    def actor(self) -> Actor:
        """Who acts."""
        if getattr(self, "swagger_fake_view", False):  # the OpenAPI generator looks at the view without a request
            return SYSTEM
        return actor_of(self.request)

    @property
    def expected_version(self) -> int:
        """The version that the caller has read (`If-Match`). Raises as `fabric.core.api.expected_version` does."""
        return expected_version(self.request)

    def rows(self) -> QuerySet[Any]:
        """Return what the actor may see, from a selector."""
        raise NotImplementedError

    def get_queryset(self) -> QuerySet[Any]:
        """Return `rows()`."""
        return self.rows()

    def one(self, pk: UUID | str) -> Any:
        """Return one of `rows()`. Raises `NotFound`."""
        found = self.rows().filter(pk=pk).first()
        if found is None:
            raise NotFound("There is no such thing here, or none that you may see.")
        return found

    def rendered(
        self, obj: Any, code: int = status.HTTP_200_OK, output: type[BaseSerializer[Any]] | None = None
    ) -> Response:
        """Return the object as the output serializer shows it, with its ETag where it has a version."""
        serializer = (output or self.get_serializer_class())(obj, context=self.get_serializer_context())
        response = Response(serializer.data, status=code)
        if isinstance(obj, Versioned):
            response["ETag"] = etag_of(obj)
        return response


class ListAndRetrieve(ListModelMixin, FabricViewSet):
    """Lists in pages, and one by its id."""

    def retrieve(self, request: Request, pk: UUID) -> Response:
        """Return one object, with its ETag where it has a version."""
        return self.rendered(self.one(pk))


class ResourceViewSet(ListAndRetrieve):
    """List, retrieve, create, change (PATCH) and delete versioned objects through services.

    Decorate subclasses with `resource_schema`; they give `create_serializer`, `update_serializer` and the three calls.
    """

    versioned = True
    create_serializer: ClassVar[type[Serializer[Any]]]
    update_serializer: ClassVar[type[Serializer[Any]]]

    def create_one(self, data: dict[str, Any]) -> Any:
        """Call the service that creates."""
        raise NotImplementedError

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Any:
        """Call the service that changes."""
        raise NotImplementedError

    def delete_one(self, pk: UUID, version: int) -> None:
        """Call the service that deletes."""
        raise NotImplementedError

    def create(self, request: Request) -> Response:
        """Make one."""
        made = self.create_one(parsed(self.create_serializer, request))
        return self.rendered(self.one(made.pk), status.HTTP_201_CREATED)

    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change the fields that are given; needs `If-Match`."""
        version = self.expected_version
        self.update_one(pk, parsed(self.update_serializer, request, partial=True), version)
        return self.rendered(self.one(pk))

    def destroy(self, request: Request, pk: UUID) -> Response:
        """Remove one; needs `If-Match`."""
        self.delete_one(pk, self.expected_version)
        return Response(status=status.HTTP_204_NO_CONTENT)
