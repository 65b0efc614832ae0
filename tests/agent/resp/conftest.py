"""One served store per module, emptied before each test; tests that need other settings serve their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.agent.harness import MIB, Served, served


@pytest.fixture(scope="module")
def module_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory: Path = tmp_path_factory.mktemp("agent")
    with served(directory, dram=8 * MIB, flash=32 * MIB, inflight=128 * MIB) as service:
        yield service


@pytest.fixture
def service(module_service: Served) -> Served:
    module_service.plane.store.flush()
    return module_service


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(service: Served, request: pytest.FixtureRequest) -> redis.Redis:
    return service.client(protocol=request.param)
