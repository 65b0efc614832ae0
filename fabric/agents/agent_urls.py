"""Routes for agents, below /agent/v1/; the paths are those of `agent.protocol`."""

from django.urls import path

from fabric.agents import agent_api

urlpatterns = [
    path("enroll/challenge", agent_api.EnrollChallengeView.as_view(), name="agent-enroll-challenge"),
    path("enroll", agent_api.EnrollView.as_view(), name="agent-enroll"),
    path("rejoin/challenge", agent_api.RejoinChallengeView.as_view(), name="agent-rejoin-challenge"),
    path("rejoin", agent_api.RejoinView.as_view(), name="agent-rejoin"),
    path("heartbeat", agent_api.HeartbeatView.as_view(), name="agent-heartbeat"),
]
