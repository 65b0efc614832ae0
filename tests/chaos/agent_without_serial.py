"""`python -m agent` on a machine whose serial number nobody can read, as in most containers.

Several agents share the test's host. Where its serial number is readable, the control plane would rightly deny the
second one: one machine, one agent.
"""

import sys

import agent.discovery
from agent.protocol import HostInventory

_discover_host = agent.discovery.discover_host


def _without_serial() -> HostInventory:
    return _discover_host().model_copy(update={"serial": None})


agent.discovery.discover_host = _without_serial

from agent.service import main  # noqa: E402 - binds `discover_host`

sys.exit(main())
