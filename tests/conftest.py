"""Every test process has a home of its own; nothing here touches the checkout's `var/`."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.settings import TEST_HOME
from tests.support.servers import running_redis

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A real Redis of this test process's own, at the URL that the settings name."""
    with running_redis(TEST_HOME / "redis") as url:
        yield url


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of real traces and samples beside the checkout; tests that need it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the shared/ folder (real traces and samples) does not stand beside this checkout")
    return SHARED


def pytest_unconfigure() -> None:
    """Remove this process's home."""
    shutil.rmtree(TEST_HOME, ignore_errors=True)
