"""The agent's management side: enrolment, heartbeats, signed policy pushes, status, inventory, `/metrics` and probes.

It stands beside the data plane and never in its way: without a control plane, or with one that is slow, silent or
hostile, blocks are served under the last good policy.
"""

from agent.manage.run import run_manage

__all__ = ["run_manage"]
