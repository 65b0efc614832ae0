"""What `make test`, `make test-fast` and `make lint` do, in order; the first failure ends it; pytest speaks last."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.postgres import postgres_bin, running_postgres

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = ROOT / ".venv" / "bin"
DATABASE_TESTS = ["tests/fabric", "tests/telemetry", "tests/launch/test_services.py"]


def step(title: str, *arguments: str, **environment: str) -> None:
    """Run one command of the virtual environment; end this process with its code when it fails."""
    print(f"\n=== {title}", flush=True)
    started = time.monotonic()
    command = [str(BIN / arguments[0]), *arguments[1:]]
    code = subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=False).returncode
    print(f"=== {title}: {'ok' if code == 0 else f'FAILED ({code})'} in {time.monotonic() - started:.0f} s", flush=True)
    if code:
        sys.exit(code)


def lint() -> None:
    """Style, import rules, types, migrations, API schema."""
    step("ruff check", "ruff", "check", "--quiet", ".")
    step("ruff format", "ruff", "format", "--check", "--quiet", ".")
    step("import rules", "lint-imports")
    step("types", "mypy")
    step(
        "migrations are complete",
        "python",
        "manage.py",
        "makemigrations",
        "--check",
        "--dry-run",
        FABRIC_HOME="var/lint",
    )
    step("deployment checks", "python", "manage.py", "check", FABRIC_HOME="var/lint")
    step(
        "the OpenAPI schema is valid",
        "python", "manage.py", "spectacular", "--validate", "--fail-on-warn", "--file", "/dev/null",
        FABRIC_HOME="var/lint",
    )  # fmt: skip


def fast() -> None:
    """The inner loop: no browser, nothing slow."""
    step("fast tests", "pytest", "-q", "-n", "2", "-m", "not slow and not browser", "tests")


def everything() -> None:
    """All that CI runs."""
    lint()
    postgres_pass()
    step("tests", "pytest", "-q", "-n", "2", "--dist", "loadscope", "-m", "not browser and not slow", "tests")
    # What starts whole fabrics, kills them or drives a browser runs alone: two of them would share two cores.
    step("slow and browser tests", "pytest", "-q", "-m", "slow or browser", "tests")


def postgres_pass() -> None:
    """The database-facing tests on PostgreSQL, where its server is installed."""
    if not postgres_bin():
        if os.environ.get("FABRIC_REQUIRE_POSTGRES") == "1":
            sys.exit("FABRIC_REQUIRE_POSTGRES=1 but there is no PostgreSQL server (apt-get install postgresql)")
        print("\n=== PostgreSQL pass left out: no server on this machine (apt-get install postgresql)", flush=True)
        return
    with running_postgres() as url:
        step(
            "database-facing tests on PostgreSQL",
            "pytest", "-q", "-n", "2", "--dist", "loadscope", "-m", "not browser and not slow", *DATABASE_TESTS,
            DATABASE_URL=url,
        )  # fmt: skip


if __name__ == "__main__":
    modes: dict[str, Callable[[], None]] = {"all": everything, "fast": fast, "lint": lint}
    modes[sys.argv[1]]()
