"""The agent and the simulator run the same decisions: a replayed trace gives the same hits to the last block."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from kvcache.policy import ResolvedPolicy
from kvcache.simulator import SimulationResult, simulate
from kvcache.trace import Request, read_trace
from kvcache.trace.generator import PRESETS, generate
from tests.agent.harness import KIB, MIB, Served, payload, policy, served

BLOCK = 256
UNIQUE_BLOCKS = 182_790


def replay(service: Served, requests: Iterable[Request]) -> int:
    """Play requests through one client as the contract says: MGET all, MSET the missing. Return wrong blocks."""
    client = service.client()
    wrong = 0
    for request in requests:
        keys = [block.to_bytes(8, "big") for block in request.block_ids]
        found = client.mget(keys)
        wrong += sum(data is not None and data != payload(key, BLOCK) for key, data in zip(keys, found, strict=True))
        missing = {key: payload(key, BLOCK) for key, data in zip(keys, found, strict=True) if data is None}
        if missing:
            client.mset(missing)
    return wrong


def assert_equal(service: Served, expected: SimulationResult) -> None:
    stats = service.plane.store.stats
    hits = stats.lookup_blocks["dram"] + stats.lookup_blocks["flash"]
    assert (hits, stats.lookup_blocks["miss"]) == (expected.block_hits, expected.accesses - expected.block_hits)
    assert (stats.prefix_hit_blocks, stats.prefix_lookup_blocks) == (expected.prefix_hits, expected.accesses)
    assert stats.set_refused["no_room"] == expected.refused
    assert not stats.corrupt_blocks["flash"]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("dram_blocks", "flash_blocks"), [(300, 900), (64, 2000), (1500, 0)])
def test_generated_trace_has_the_hits_of_the_simulator(
    tmp_path: Path, dram_blocks: int, flash_blocks: int, keep: bool
) -> None:
    requests = list(generate(PRESETS["agentic"], 7, requests=150))
    chosen = policy(dram_blocks * BLOCK, flash_blocks * BLOCK, keep=keep)
    options = {"policy_": chosen, "limits": (MIB, 4 * MIB), "slot_bytes": 8 * KIB, "sweep_interval_s": 60.0}
    with served(tmp_path, **options) as service:
        assert replay(service, requests) == 0
        assert_equal(service, simulate(requests, chosen, block_bytes=BLOCK))


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.1])
def test_mooncake_conversation_has_the_hits_of_the_simulator(tmp_path: Path, shared_dir: Path, share: float) -> None:
    """Two sizes, a third of each in DRAM and the rest in flash; sizes are shares of the trace's unique blocks."""
    trace = shared_dir / "traces" / "mooncake_conversation.jsonl.gz"
    requests = list(islice(read_trace(trace), 2500))
    blocks = int(share * UNIQUE_BLOCKS)
    chosen: ResolvedPolicy = policy(blocks // 3 * BLOCK, (blocks - blocks // 3) * BLOCK)
    options = {"policy_": chosen, "limits": (8 * MIB, 64 * MIB), "slot_bytes": 8 * KIB, "sweep_interval_s": 60.0}
    with served(tmp_path, **options) as service:
        assert replay(service, requests) == 0
        assert_equal(service, simulate(requests, chosen, block_bytes=BLOCK))
        assert service.plane.store.stats.lookup_blocks["flash"] > 0
