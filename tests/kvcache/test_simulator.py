"""The simulator's counts on traces small enough to do by hand; real traces are in test_ground_truth."""

import pytest

from kvcache.policy import ResolvedPolicy, ResolvedTier
from kvcache.simulator import block_policy, simulate
from kvcache.trace import Request
from kvcache.trace.generator import PRESETS, generate


def _request(at_s: float, *ids: int) -> Request:
    return Request(at_s * 1000, 10 * len(ids) - 3, 1, ids, 10)


def test_simulate_counts_by_hand() -> None:
    result = simulate(
        [_request(0, 1, 2, 3), _request(1, 1, 2, 4), _request(2, 5), _request(3, 1, 2)], capacity_blocks=3
    )
    assert (result.requests, result.accesses, result.unique_blocks) == (4, 9, 5)
    assert (result.block_hits, result.prefix_hits, result.full_hit_requests) == (4, 4, 1)
    assert (result.hit_tokens, result.input_tokens) == (20 + 17, 90 - 12)
    assert (result.inserts, result.evictions, result.refused) == (5, 2, 0)
    assert result.prefix_hit_ratio == 4 / 9


def test_simulate_two_tiers_count_where_the_prefix_was() -> None:
    requests = [_request(0, 1), _request(1, 2), _request(2, 1), _request(3, 1, 2)]
    result = simulate(requests, block_policy(1, 5))
    assert (result.dram_prefix_hits, result.flash_prefix_hits) == (1, 2)
    assert (result.demotions, result.promotions, result.flash_writes, result.evictions) == (2, 1, 2, 0)


def test_simulate_nothing_has_no_ratios() -> None:
    result = simulate([], capacity_blocks=5)
    assert result.prefix_hit_ratio is result.block_hit_ratio is result.token_hit_ratio is None


def test_simulate_no_capacity_hits_nothing_and_refuses_all() -> None:
    result = simulate([_request(0, 1, 2), _request(1, 1, 2)], capacity_blocks=0)
    assert (result.block_hits, result.inserts, result.refused) == (0, 0, 4)


def test_simulate_ttl_follows_the_traces_clock() -> None:
    policy = ResolvedPolicy(ResolvedTier.of_bytes(9, ttl_s=10.0), ResolvedTier.of_bytes(0))
    result = simulate([_request(0, 1), _request(9, 1), _request(18, 1), _request(28, 1)], policy)
    assert (result.block_hits, result.expirations) == (2, 1)


def test_simulate_block_bytes_scale_with_the_policy() -> None:
    requests = list(generate(PRESETS["chat"], 1, requests=300))
    by_blocks = simulate(requests, capacity_blocks=500)
    by_bytes = simulate(
        requests, ResolvedPolicy(ResolvedTier.of_bytes(500 * 64), ResolvedTier.of_bytes(0)), block_bytes=64
    )
    assert by_blocks == by_bytes


def test_simulate_infinite_capacity_hits_all_but_first_uses() -> None:
    requests = list(generate(PRESETS["agentic"], 1, requests=300))
    result = simulate(requests, capacity_blocks=10**9)
    assert result.block_hits == result.accesses - result.unique_blocks
    assert result.prefix_hits == result.block_hits


def test_simulate_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        simulate([])
    with pytest.raises(ValueError, match="exactly one"):
        simulate([], block_policy(1), capacity_blocks=1)
    with pytest.raises(ValueError, match="block_bytes"):
        simulate([], capacity_blocks=1, block_bytes=0)
