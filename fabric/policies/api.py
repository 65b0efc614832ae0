"""REST edge of policies."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from fabric.core.actor import Role
from fabric.core.api import etag_of
from fabric.core.api.resources import resource_schema
from fabric.core.api.serializers import parsed
from fabric.core.api.views import FabricViewSet, ResourceViewSet
from fabric.core.errors import Invalid, NotFound, Problem
from fabric.policies import selectors, services
from fabric.policies import serializers as shapes
from fabric.policies.api_filters import PolicyFilter, RevisionFilter
from fabric.policies.models import Policy, Revision
from fabric.pools.selectors import pool_detail


@resource_schema("policy", shapes.PolicySerializer, shapes.PolicyInput, shapes.PolicyInput)
class PolicyViewSet(ResourceViewSet):
    """Named lines of revisions."""

    serializer_class = shapes.PolicySerializer
    create_serializer = update_serializer = shapes.PolicyInput
    filterset_class = PolicyFilter

    def rows(self) -> QuerySet[Policy]:
        """Return the policies that the actor may see."""
        return selectors.policies_for_list(self.actor)

    def create_one(self, data: dict[str, Any]) -> Policy:
        """Make a policy."""
        return services.create_policy(actor=self.actor, **data)

    def update_one(self, pk: UUID, data: dict[str, Any], version: int) -> Policy:
        """Change a policy."""
        return services.update_policy(actor=self.actor, policy_id=pk, expected_version=version, **data)

    def delete_one(self, pk: UUID, version: int) -> None:
        """Remove a policy."""
        services.delete_policy(actor=self.actor, policy_id=pk, expected_version=version)

    @extend_schema(summary="JSON Schema of the policy document", responses=OpenApiTypes.OBJECT)
    @action(detail=False, filter_backends=[], pagination_class=None, url_path="schema")
    def document_schema(self, request: Request) -> Response:
        """Return the JSON Schema, with default, unit, range, title and help of each field."""
        return Response(selectors.policy_schema())


class PolicyValidationViewSet(FabricViewSet):
    """Documents before they are stored."""

    serializer_class = shapes.ValidationSerializer
    write_role = Role.VIEWER  # it writes nothing

    @extend_schema(
        summary="Check a policy document", request=shapes.ValidationInput, responses=shapes.ValidationSerializer
    )
    def create(self, request: Request) -> Response:
        """Check a document, and whether the agents of a pool can enforce it. Nothing is stored."""
        data = parsed(shapes.ValidationInput, request)
        document = services.parsed_document(document=data.get("document"), text=data.get("text"))
        found = selectors.validation_for_pool(self.actor, document, data.get("pool"))
        return Response(shapes.ValidationSerializer(found).data)


AGAINST = OpenApiParameter(
    "against",
    OpenApiTypes.INT,
    description="Number of the revision to compare with; the one before when not given.",
)


@extend_schema_view(list=extend_schema(summary="List a policy's revisions, newest first"))
class RevisionViewSet(ListModelMixin, FabricViewSet):
    """The revisions of one policy. They never change."""

    serializer_class = shapes.RevisionSerializer
    filterset_class = RevisionFilter
    versioned = True
    versioned_actions = frozenset({"create"})
    lookup_url_kwarg = "number"
    lookup_field = "number"
    lookup_value_converter = "int"

    def rows(self) -> QuerySet[Revision]:
        """Return the policy's revisions. Raises `NotFound` when there is no such policy."""
        if getattr(self, "swagger_fake_view", False):
            return Revision.objects.none()
        policy = selectors.policy_detail(self.actor, self.kwargs["policy_pk"])
        return selectors.revisions_for_policy(self.actor, policy.pk)

    @extend_schema(summary="Write a revision", request=shapes.RevisionInput, responses={201: shapes.RevisionSerializer})
    def create(self, request: Request, policy_pk: UUID) -> Response:
        """Store a document (object, or YAML or JSON text) as the next revision; `If-Match` is the policy's ETag."""
        version = self.expected_version
        data = parsed(shapes.RevisionInput, request)
        revision = services.write_revision(actor=self.actor, policy_id=policy_pk, expected_version=version, **data)
        response = self.rendered(revision, status.HTTP_201_CREATED)
        response["ETag"] = etag_of(selectors.policy_detail(self.actor, policy_pk))
        return response

    @extend_schema(summary="Read one revision")
    def retrieve(self, request: Request, policy_pk: UUID, number: int) -> Response:
        """Return one revision with its document."""
        return self.rendered(selectors.revision_detail(self.actor, policy_pk, number))

    @extend_schema(summary="What a revision changes", parameters=[AGAINST], responses=shapes.RevisionDiffSerializer)
    @action(detail=True, filter_backends=[], pagination_class=None)
    def diff(self, request: Request, policy_pk: UUID, number: int) -> Response:
        """Return every field that differs from another revision of the same policy."""
        after = selectors.revision_detail(self.actor, policy_pk, number)
        before = selectors.revision_detail(self.actor, policy_pk, _number(request, default=max(number - 1, 1)))
        body = {
            "before": before.number,
            "after": after.number,
            "changes": [change._asdict() for change in selectors.revision_diff(before, after)],
        }
        return Response(shapes.RevisionDiffSerializer(body).data)


class PoolPolicyViewSet(FabricViewSet):
    """Which policy a pool runs."""

    serializer_class = shapes.PoolPolicySerializer
    filter_backends = []
    pagination_class = None

    @extend_schema(summary="Policy of a pool", responses=shapes.PoolPolicySerializer)
    def retrieve(self, request: Request, pk: UUID) -> Response:
        """Return the pool's policy and the revision that last went out to it whole."""
        pool = pool_detail(self.actor, pk)
        row = selectors.pool_policy_for_pool(self.actor, pool.pk)
        if row is None:
            raise NotFound(f"Pool {pool.name} was given no policy yet.")
        return self.rendered(row)

    @extend_schema(
        summary="Assign a policy to a pool", request=shapes.AssignInput, responses=shapes.PoolPolicySerializer
    )
    def update(self, request: Request, pk: UUID) -> Response:
        """Say which policy the pool runs; what its agents run changes with the next rollout."""
        data = parsed(shapes.AssignInput, request)
        services.assign_policy(actor=self.actor, pool_id=pk, policy_id=data["policy"], reason=data.get("reason", ""))
        return self.retrieve(request, pk)


def _number(request: Request, *, default: int) -> int:
    """Return the revision number in `against`. Raises `Invalid` when it is none."""
    text = request.query_params.get("against")
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        problem = Problem("against", "it is not the number of a revision", "give a whole number such as 3")
        raise Invalid("The revision to compare with cannot be understood.", [problem])
    return int(text)
