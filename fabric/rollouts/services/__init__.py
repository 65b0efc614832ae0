"""Writes of rollouts: start and steer (operators), push (workers), observe and settle (sweepers), catch up (new
members).
"""

from fabric.rollouts.services.members import reconcile_pool_members
from fabric.rollouts.services.pushing import push_target
from fabric.rollouts.services.starting import roll_back_rollout, start_rollout
from fabric.rollouts.services.sweeping import SweepReport, sweep_rollouts
from fabric.rollouts.services.verbs import abort_rollout, act_on_rollout, pause_rollout, resume_rollout

__all__ = [
    "SweepReport",
    "abort_rollout",
    "act_on_rollout",
    "pause_rollout",
    "push_target",
    "reconcile_pool_members",
    "resume_rollout",
    "roll_back_rollout",
    "start_rollout",
    "sweep_rollouts",
]
