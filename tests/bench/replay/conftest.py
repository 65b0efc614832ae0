"""Players against agents, and traces small enough to count by hand."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.replay.client import BlockClient
from bench.replay.costing import cost_model
from bench.replay.metrics import ReplayMetrics
from bench.replay.payload import PayloadMaker
from bench.replay.player import Blocks, Player
from kvcache.trace import Request, read_trace, write_trace
from tests.bench.conftest import RunningAgent, series

PAYLOAD_BYTES = 256
_NUMBERS = itertools.count()


class CountedPlayer(Player):
    """A player whose metrics are at hand, and whose blocks are no other player's."""

    def __init__(self, agents: list[Blocks], payload_bytes: int = PAYLOAD_BYTES) -> None:
        self.namespace = f"test-{next(_NUMBERS)}"
        self.metrics = ReplayMetrics(trace="test", model="llama-3.1-8b", payload_bytes=payload_bytes)
        costs = cost_model("llama-3.1-8b", "h100-bf16", 1)
        super().__init__(agents, PayloadMaker(payload_bytes), self.metrics, costs, self.namespace)

    def counted(self) -> dict[str, float]:
        """Return what it shows a scraper."""
        return series(self.metrics.exposition().decode())


@pytest.fixture
def player_for() -> Callable[..., CountedPlayer]:
    """Make a player against running agents."""

    def make(*agents: RunningAgent, payload_bytes: int = PAYLOAD_BYTES) -> CountedPlayer:
        clients = [BlockClient(agent.url, agent.password_file, payload_bytes, 4) for agent in agents]
        return CountedPlayer(list(clients), payload_bytes)

    return make


def request(*block_ids: int, at_ms: float = 0.0, tokens: int | None = None, session: str | None = None) -> Request:
    """Return a request of blocks of 16 tokens, all full unless `tokens` says less."""
    return Request(at_ms, tokens or 16 * len(block_ids), 5, block_ids, 16, session)


def write_requests(path: Path, *requests: Request) -> Path:
    """Write a trace file."""
    with path.open("wb") as file:
        write_trace(requests, file, compress=path.suffix == ".gz")
    return path


@pytest.fixture(scope="module")
def conversation(shared_dir: Path) -> list[Request]:
    """All requests of the real trace of that name."""
    return list(read_trace(shared_dir / "traces" / "mooncake_conversation.jsonl.gz"))
