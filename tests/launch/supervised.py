"""A supervisor in a process of its own, whose tiny children are described on its command line; run by the tests."""

import json
import sys
from pathlib import Path

from fabric.launch import supervisor
from fabric.launch.child import Service
from fabric.launch.locks import LockedError, hold
from fabric.launch.readiness import says
from fabric.launch.supervisor import Supervisor


def main() -> int:
    """Read a JSON object: home, services [{name, code, …}], and optional times; run them until told to stop."""
    plan = json.loads(sys.argv[1])
    for name, value in plan.get("times", {}).items():
        setattr(supervisor, name, value)
    services = [
        Service(
            name=item["name"],
            command=tuple(item.get("command") or (sys.executable, "-u", "-c", item["code"])),
            ready=says("up"),
            after=tuple(item.get("after", ())),
            essential=item.get("essential", False),
            ready_timeout_s=item.get("ready_timeout_s", 10),
            stop_grace_s=item.get("stop_grace_s", 5),
        )
        for item in plan["services"]
    ]
    home = Path(plan["home"])
    try:
        locks = hold(home / "run", [service.name for service in services])
    except LockedError as error:
        print(error, flush=True)
        return 2
    running = Supervisor(services, home / "log", lambda line: print(line, flush=True), locks=locks)
    return running.run(lambda: print("READY", flush=True))


if __name__ == "__main__":
    sys.exit(main())
