"""REST edges of agents and join tokens, for people and their tokens."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from fabric.agents import selectors, services
from fabric.agents import serializers as shapes
from fabric.agents.api_filters import AgentFilter, JoinTokenFilter
from fabric.agents.models import Agent, JoinToken
from fabric.core.actor import Role
from fabric.core.api.etags import etag_of
from fabric.core.api.serializers import ReasonInput, parsed
from fabric.core.api.views import FabricViewSet, ListAndRetrieve


@extend_schema_view(
    retrieve=extend_schema(summary="Read one agent", responses=shapes.AgentDetailSerializer),
)
class AgentViewSet(FabricViewSet):
    """Storage agents. They are made by enrolling, with a join token."""

    serializer_class = shapes.AgentSerializer
    filterset_class = AgentFilter
    versioned = True

    def rows(self) -> QuerySet[Agent]:
        """Return the agents that the actor may see."""
        return selectors.agents_for_list(self.actor)

    @extend_schema(summary="List agents", responses=shapes.AgentSerializer(many=True))
    def list(self, request: Request) -> Response:
        """Return a page of agents, each with its sync state now."""
        page: list[Agent] = self.paginate_queryset(self.filter_queryset(self.rows())) or []
        now = timezone.now()
        rows = [selectors.overview_of(agent, now) for agent in page]
        return self.get_paginated_response(shapes.AgentSerializer(rows, many=True).data)

    def retrieve(self, request: Request, pk: UUID) -> Response:
        """Return one agent with its documents, and its ETag."""
        return self._shown(pk)

    @extend_schema(
        summary="Rename an agent, or move it to another pool",
        request=shapes.AgentChange(partial=True),
        responses=shapes.AgentDetailSerializer,
    )
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change name or pool; needs `If-Match`."""
        version, data = self.expected_version, parsed(shapes.AgentChange, request, partial=True)
        services.update_agent(
            actor=self.actor,
            agent_id=pk,
            name=data.get("name"),
            pool_id=data.get("pool"),
            leave_pool="pool" in data and data["pool"] is None,
            expected_version=version,
            reason=data.get("reason", ""),
        )
        return self._shown(pk)

    @extend_schema(summary="Forget an agent that is not trusted", responses={204: None})
    def destroy(self, request: Request, pk: UUID) -> Response:
        """Remove a revoked, denied or pending agent; needs `If-Match`."""
        services.delete_agent(actor=self.actor, agent_id=pk, expected_version=self.expected_version)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(summary="Let a waiting agent in", request=ReasonInput, responses=shapes.AgentDetailSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: UUID) -> Response:
        """Trust a pending or denied agent. For admins."""
        return self._decided(services.approve_agent, request, pk)

    @extend_schema(summary="Trust a locked agent", request=ReasonInput, responses=shapes.AgentDetailSerializer)
    @action(detail=True, methods=["post"])
    def unlock(self, request: Request, pk: UUID) -> Response:
        """Trust a locked agent again. For admins."""
        return self._decided(services.unlock_agent, request, pk)

    @extend_schema(summary="End the trust in an agent", request=ReasonInput, responses=shapes.AgentDetailSerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: UUID) -> Response:
        """End the trust in an agent, for good."""
        return self._decided(services.revoke_agent, request, pk)

    def _decided(self, service: Callable[..., Agent], request: Request, pk: UUID) -> Response:
        service(actor=self.actor, agent_id=pk, reason=parsed(ReasonInput, request).get("reason", ""))
        return self._shown(pk)

    def _shown(self, pk: UUID) -> Response:
        agent = selectors.agent_detail(self.actor, pk)
        body = shapes.AgentDetailSerializer(selectors.overview_of(agent, timezone.now())).data
        return Response(body, headers={"ETag": etag_of(agent)})


@extend_schema_view(
    list=extend_schema(summary="List join tokens"),
    retrieve=extend_schema(summary="Read one join token"),
)
class JoinTokenViewSet(ListAndRetrieve):
    """Permissions to enrol."""

    serializer_class = shapes.JoinTokenSerializer
    filterset_class = JoinTokenFilter
    read_role = Role.OPERATOR

    def rows(self) -> QuerySet[JoinToken]:
        """Return the join tokens that the actor may see."""
        return selectors.join_tokens_for_list(self.actor)

    @extend_schema(
        summary="Make a join token", request=shapes.JoinTokenInput, responses={201: shapes.MadeJoinTokenSerializer}
    )
    def create(self, request: Request) -> Response:
        """Make a join token; its text is shown only in this answer."""
        data: dict[str, Any] = parsed(shapes.JoinTokenInput, request)
        if "life_s" in data:
            data["life"] = timedelta(seconds=data.pop("life_s"))
        made = services.create_join_token(actor=self.actor, **data)
        body = {**shapes.JoinTokenSerializer(made.token).data, "token": made.text}
        return Response(body, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})

    @extend_schema(summary="Revoke a join token", request=ReasonInput, responses=shapes.JoinTokenSerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: UUID) -> Response:
        """End a join token; agents that joined with it stay."""
        reason = parsed(ReasonInput, request).get("reason", "")
        return self.rendered(services.revoke_join_token(actor=self.actor, token_id=pk, reason=reason))
