"""Writes of agents: enrolment, credentials, heartbeats, trust, and the desired state that rollouts set."""

from fabric.agents.services.desired import desired_envelope, record_apply_reply, set_desired
from fabric.agents.services.enrollment import Enrolled, agent_actor, challenge_enrollment, enroll_agent
from fabric.agents.services.heartbeats import record_heartbeat
from fabric.agents.services.housekeeping import purge_expired
from fabric.agents.services.join_tokens import MintedJoinToken, create_join_token, revoke_join_token
from fabric.agents.services.keys import SigningPair, active_signing_key, control_plane_keys, mint_read_grant
from fabric.agents.services.refusals import Refused
from fabric.agents.services.rejoin import challenge_rejoin, rejoin_agent
from fabric.agents.services.trust import approve_agent, delete_agent, revoke_agent, unlock_agent, update_agent

__all__ = [
    "Enrolled",
    "MintedJoinToken",
    "Refused",
    "SigningPair",
    "active_signing_key",
    "agent_actor",
    "approve_agent",
    "challenge_enrollment",
    "challenge_rejoin",
    "control_plane_keys",
    "create_join_token",
    "delete_agent",
    "desired_envelope",
    "enroll_agent",
    "mint_read_grant",
    "purge_expired",
    "record_apply_reply",
    "record_heartbeat",
    "rejoin_agent",
    "revoke_agent",
    "revoke_join_token",
    "set_desired",
    "unlock_agent",
    "update_agent",
]
