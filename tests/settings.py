"""The project's settings in a home of the test process's own.

pytest-django reads the settings before any conftest, so the private home has to be made here: no test sees the
checkout's `var/`. Programs that a test starts get the real settings: `tests.support.servers.clean_environment`.
"""

import os
import tempfile
from pathlib import Path

# Short, because unix sockets live in it; one per process, so that xdist's workers do not share it.
TEST_HOME = Path(tempfile.mkdtemp(prefix="kvf-"))
os.environ["FABRIC_HOME"] = str(TEST_HOME)
os.environ["REDIS_URL"] = f"unix://{TEST_HOME}/redis/redis.sock"

from fabric.settings import *  # noqa: E402, F403
