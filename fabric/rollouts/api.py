"""REST edge of rollouts."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from fabric.core.api import expected_version
from fabric.core.api.serializers import parsed
from fabric.core.api.views import FabricViewSet
from fabric.rollouts import selectors, services
from fabric.rollouts import serializers as shapes
from fabric.rollouts.api_filters import RolloutFilter, RolloutTargetFilter
from fabric.rollouts.domain import Verb
from fabric.rollouts.models import Rollout, RolloutTarget

F = TypeVar("F", bound=Callable[..., Any])

IF_MATCH = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description='The ETag that was read, such as "3": the verb is refused (412) when the rollout has moved on since.',
)
ETAG = OpenApiParameter(
    "ETag",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[200, 201],
    description="Version of the rollout; it grows with each change of state.",
)


def _verb_schema(summary: str, code: int = status.HTTP_200_OK) -> Callable[[F], F]:
    return extend_schema(
        summary=summary,
        request=shapes.VerbInput,
        responses={code: shapes.RolloutSerializer},
        parameters=[IF_MATCH, ETAG],
    )


@extend_schema_view(list=extend_schema(summary="List rollouts, newest first"))
class RolloutViewSet(ListModelMixin, FabricViewSet):
    """Revisions on their way to pools."""

    serializer_class = shapes.RolloutSerializer
    filterset_class = RolloutFilter

    def rows(self) -> QuerySet[Rollout]:
        """Return the rollouts that the actor may see."""
        return selectors.rollouts_for_overview(self.actor)

    @extend_schema(summary="Read one rollout", parameters=[ETAG])
    def retrieve(self, request: Request, pk: UUID) -> Response:
        """Return one rollout with the reasons of this moment."""
        return self._shown(pk)

    @extend_schema(
        summary="Start a rollout",
        request=shapes.StartInput,
        responses={201: shapes.RolloutSerializer},
        parameters=[ETAG],
    )
    def create(self, request: Request) -> Response:
        """Send a revision to every active agent of a pool; an open rollout of the pool is superseded."""
        rollout = services.start_rollout(actor=self.actor, **parsed(shapes.StartInput, request))
        return self._shown(rollout.pk, status.HTTP_201_CREATED)

    @_verb_schema("Pause a rollout")
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: UUID) -> Response:
        """Stop delivering; agents that have not taken the policy keep what they run."""
        return self._act(request, pk, Verb.PAUSE)

    @_verb_schema("Resume a rollout")
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: UUID) -> Response:
        """Deliver again."""
        return self._act(request, pk, Verb.RESUME)

    @_verb_schema("Abort a rollout")
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, pk: UUID) -> Response:
        """Stop for good; agents that are not in sync are put back to what they ran."""
        return self._act(request, pk, Verb.ABORT)

    @_verb_schema("Roll back a rollout", status.HTTP_201_CREATED)
    @action(detail=True, methods=["post"])
    def roll_back(self, request: Request, pk: UUID) -> Response:
        """Start a rollout of what the pool ran before this one; the answer is the new rollout."""
        return self._act(request, pk, Verb.ROLL_BACK, status.HTTP_201_CREATED)

    def _act(self, request: Request, pk: UUID, verb: Verb, code: int = status.HTTP_200_OK) -> Response:
        version = expected_version(request) if "If-Match" in request.headers else None
        reason = parsed(shapes.VerbInput, request).get("reason", "")
        rollout = services.act_on_rollout(
            actor=self.actor, rollout_id=pk, verb=verb, reason=reason, expected_version=version
        )
        return self._shown(rollout.pk, code)

    def _shown(self, pk: UUID, code: int = status.HTTP_200_OK) -> Response:
        """Render one rollout with its reasons as they are now, also when no sweeper is alive to store them."""
        detail = selectors.rollout_detail(self.actor, pk)
        detail.rollout.blocked_by = [reason.as_dict() for reason in detail.reasons]
        return self.rendered(detail.rollout, code)


@extend_schema_view(list=extend_schema(summary="List a rollout's targets"))
class RolloutTargetViewSet(ListModelMixin, FabricViewSet):
    """The agents of one rollout."""

    serializer_class = shapes.RolloutTargetSerializer
    filterset_class = RolloutTargetFilter

    def rows(self) -> QuerySet[RolloutTarget]:
        """Return the targets of the rollout in the path. Raises `NotFound` when there is no such rollout."""
        if getattr(self, "swagger_fake_view", False):
            return RolloutTarget.objects.none()
        return selectors.targets_for_rollout(self.actor, self.kwargs["rollout_pk"])
