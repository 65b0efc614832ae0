"""Writes of agents: enrolment, credentials, heartbeats, trust, and the desired state that rollouts set."""

from fabric.agents.services.desired import desired_envelope, record_apply_reply, set_desired
from fabric.agents.services.keys import SigningPair, active_signing_key, control_plane_keys, mint_read_grant

__all__ = [
    "SigningPair",
    "active_signing_key",
    "control_plane_keys",
    "desired_envelope",
    "mint_read_grant",
    "record_apply_reply",
    "set_desired",
]
