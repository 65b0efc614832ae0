"""The doors for agents, below /agent/v1/ (`agent.protocol`): enrol, rejoin, heartbeat. People's credentials open
none of them.
"""

from typing import Any, TypeVar

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import extend_schema
from pydantic import ValidationError
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agent.protocol import (
    ChallengeReply,
    ChallengeRequest,
    EnrollReply,
    EnrollRequest,
    Heartbeat,
    HeartbeatReply,
    Message,
    RejoinChallengeRequest,
    RejoinRequest,
)
from fabric.agents import services
from fabric.agents.authentication import AgentTokenAuthentication, IsAgent
from fabric.agents.models import AccessToken
from fabric.core.api.parsers import BoundedJSONParser
from fabric.core.api.schema import FabricAutoSchema
from fabric.core.api.throttles import AddressThrottle
from fabric.core.errors import Invalid, Problem, TooManyAttempts
from fabric.core.net import client_address
from fabric.core.ratelimit import register_attempt

M = TypeVar("M", bound=Message)
MIN_HEARTBEATS_PER_MINUTE = 120
MAX_PROBLEMS = 20


class AgentTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How access tokens are described in OpenAPI."""

    target_class = "fabric.agents.authentication.AgentTokenAuthentication"
    name = "agentToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "An agent's access token: kva1_<key id>.<secret>"}


class AgentView(APIView):
    """Base: JSON in, JSON out, nothing cached."""

    schema = FabricAutoSchema()
    parser_classes = [BoundedJSONParser]
    metadata_class = None

    def answer(self, message: Message) -> Response:
        """Return a message of the protocol."""
        return Response(message.model_dump(mode="json"), headers={"Cache-Control": "no-store"})


class JoinView(AgentView):
    """Base of the doors that an agent without a valid access token knocks at; each message proves itself."""

    authentication_classes: list[type[BaseAuthentication]] = []
    permission_classes = [AllowAny]
    throttle_classes = [AddressThrottle]
    throttle_scope = "enroll"


class EnrollChallengeView(JoinView):
    """First step of an enrolment."""

    @extend_schema(summary="Ask for a nonce to enrol", request=ChallengeRequest, responses=ChallengeReply)
    def post(self, request: Request) -> Response:
        """Return a nonce for a join token and a public key."""
        return self.answer(services.challenge_enrollment(request=message_in(ChallengeRequest, request)))


class EnrollView(JoinView):
    """Second step of an enrolment."""

    @extend_schema(summary="Enrol", request=EnrollRequest, responses=EnrollReply)
    def post(self, request: Request) -> Response:
        """Return the identity of a new agent."""
        message = message_in(EnrollRequest, request)
        enrolled = services.enroll_agent(request=message, address=client_address(request._request))
        return self.answer(enrolled.reply)


class RejoinChallengeView(JoinView):
    """First step of a recovery."""

    @extend_schema(summary="Ask for a nonce to rejoin", request=RejoinChallengeRequest, responses=ChallengeReply)
    def post(self, request: Request) -> Response:
        """Return a nonce for an agent."""
        return self.answer(services.challenge_rejoin(request=message_in(RejoinChallengeRequest, request)))


class RejoinView(JoinView):
    """Second step of a recovery."""

    @extend_schema(summary="Rejoin", request=RejoinRequest, responses=EnrollReply)
    def post(self, request: Request) -> Response:
        """Return a new access token to the agent that proves its key and its join sequence."""
        return self.answer(services.rejoin_agent(request=message_in(RejoinRequest, request)))


class HeartbeatView(AgentView):
    """The pulse of an agent."""

    authentication_classes = [AgentTokenAuthentication]
    permission_classes = [IsAgent]
    throttle_classes: list[Any] = []

    @extend_schema(summary="Report, and learn what to run", request=Heartbeat, responses=HeartbeatReply)
    def post(self, request: Request) -> Response:
        """Store a report and return what the agent should know."""
        token = request.auth
        if not isinstance(token, AccessToken):
            raise NotAuthenticated
        agent_id = token.agent_id
        limit = max(MIN_HEARTBEATS_PER_MINUTE, int(4 * 60 / settings.ENV.heartbeat_interval_s))
        wait_s = register_attempt("heartbeat", str(agent_id), limit=limit, window_s=60)
        if wait_s:
            raise TooManyAttempts("Too many heartbeats.", wait_s)
        heartbeat = message_in(Heartbeat, request)
        reply = services.record_heartbeat(agent_id=agent_id, token_key_id=token.key_id, heartbeat=heartbeat)
        return self.answer(reply)


def message_in(kind: type[M], request: Request) -> M:
    """Return the body as a message of the protocol. Raises `Invalid` naming the fields, never their values
    (secrets).
    """
    try:
        return kind.model_validate(request.data)
    except ValidationError as error:
        problems = [
            Problem(".".join(str(part) for part in item["loc"]), item["msg"], "see agent.protocol")
            for item in error.errors(include_input=False, include_url=False, include_context=False)[:MAX_PROBLEMS]
        ]
        raise Invalid(f"The body is not the message {kind.__name__} of protocol v1.", problems) from None
