"""One request after the other against a real agent: what is counted, and what happens when the agent fails."""

from collections.abc import Callable, Sequence

import pytest
import redis

from bench.replay.client import BlockClient, BlockError
from kvcache.keys import trace_block_key
from kvcache.policy import TierLimits, default_policy, resolve
from kvcache.simulator import simulate
from tests.bench.conftest import RunningAgent
from tests.bench.replay.conftest import PAYLOAD_BYTES, CountedPlayer, request
from tests.support.servers import wait_until

StartAgent = Callable[..., RunningAgent]
PlayerFor = Callable[..., CountedPlayer]


def test_first_time_misses_second_time_hits_and_every_hit_is_verified(
    agent: RunningAgent, player_for: PlayerFor
) -> None:
    player = player_for(agent)
    first = player.play(request(1, 2, 3))
    second = player.play(request(1, 2, 4, 5, tokens=50))
    assert (first.hit, first.miss, first.prefix) == (0, 3, 0)
    assert (second.hit, second.miss, second.prefix) == (2, 2, 2)
    counted = player.counted()
    assert counted["kvfabric_replay_verified_blocks_total"] == 2
    assert counted["kvfabric_replay_wrong_blocks_total"] == 0
    assert counted['kvfabric_replay_blocks_total{result="miss"}'] == 5
    assert counted['vllm:prompt_tokens_total{model_name="llama-3.1-8b"}'] == 48 + 50
    assert counted['vllm:external_prefix_cache_queries_total{model_name="llama-3.1-8b"}'] == 98
    assert counted['vllm:external_prefix_cache_hits_total{model_name="llama-3.1-8b"}'] == 32
    assert counted['vllm:generation_tokens_total{model_name="llama-3.1-8b"}'] == 10
    assert counted['vllm:time_to_first_token_seconds_count{model_name="llama-3.1-8b"}'] == 2
    assert counted["kvfabric_replay_energy_saved_joules_total"] > 0


def test_partial_tail_block_counts_its_own_tokens(agent: RunningAgent, player_for: PlayerFor) -> None:
    player = player_for(agent)
    player.play(request(1, 2, tokens=20))
    player.play(request(1, 2, tokens=20))
    assert player.counted()['vllm:external_prefix_cache_hits_total{model_name="llama-3.1-8b"}'] == 20


def test_hole_ends_the_prefix_but_not_the_hits(agent: RunningAgent, player_for: PlayerFor) -> None:
    player = player_for(agent)
    player.play(request(1, 2, 3))
    _redis(agent).delete(trace_block_key(player.namespace, 2))
    outcome = player.play(request(1, 2, 3))
    assert (outcome.hit, outcome.miss, outcome.prefix) == (2, 1, 1)


def test_wrong_byte_is_counted_used_as_a_miss_and_written_anew(agent: RunningAgent, player_for: PlayerFor) -> None:
    player = player_for(agent)
    player.play(request(1, 2, 3))
    key = trace_block_key(player.namespace, 2)
    payload = bytearray(_redis(agent).get(key) or b"")
    payload[100] ^= 1
    _redis(agent).set(key, bytes(payload))
    outcome = player.play(request(1, 2, 3))
    assert (outcome.wrong, outcome.hit, outcome.miss, outcome.prefix) == (1, 2, 1, 1)
    assert player.counted()["kvfabric_replay_wrong_blocks_total"] == 1
    assert player.play(request(1, 2, 3)).hit == 3


def test_agent_that_is_down_costs_misses_and_errors_then_recovers(
    start_agent: StartAgent, player_for: PlayerFor
) -> None:
    agent = start_agent(flash_limit_bytes=0)
    player = player_for(agent)
    player.play(request(1, 2))
    agent.stop()
    outcomes = [player.play(request(1, 2)) for _ in range(20)]
    assert all(outcome.miss == 2 and outcome.errors for outcome in outcomes)
    kinds = [kind for outcome in outcomes for kind in outcome.errors]
    assert kinds[0] == "connection"
    assert kinds.count("backing_off") >= 15, "a dead agent is not asked again and again"
    agent.start()
    wait_until(lambda: not player.play(request(1, 2)).errors, timeout_s=10, message="the agent being asked again")
    assert player.play(request(1, 2)).hit == 2


def test_wrong_password_is_an_error_of_its_own(start_agent: StartAgent, player_for: PlayerFor) -> None:
    agent = start_agent(flash_limit_bytes=0)
    agent.password_file.write_text("not the password, which the agent read before")
    assert player_for(agent).play(request(1)).errors == ("auth",)


def test_missing_password_file_is_an_error_and_not_an_end(start_agent: StartAgent, player_for: PlayerFor) -> None:
    agent = start_agent(flash_limit_bytes=0)
    agent.password_file.unlink()
    assert player_for(agent).play(request(1)).errors == ("auth",)


def test_request_without_blocks_is_played(agent: RunningAgent, player_for: PlayerFor) -> None:
    outcome = player_for(agent).play(request(tokens=10))
    assert (outcome.hit, outcome.miss, outcome.prefix) == (0, 0, 0)


def test_sessions_stay_with_one_agent_and_spread_over_all(start_agent: StartAgent, player_for: PlayerFor) -> None:
    agents = [start_agent(flash_limit_bytes=0), start_agent(flash_limit_bytes=0)]
    player = player_for(*agents)
    for session in range(20):
        player.play(request(session * 10, session * 10 + 1, session=f"s{session}"))
        assert player.play(request(session * 10, session * 10 + 1, session=f"s{session}")).hit == 2
    stored = [agent.metrics()['kvfabric_agent_stored_blocks{tier="dram"}'] for agent in agents]
    assert sum(stored) == 40
    assert min(stored) > 0


def test_request_too_large_for_one_command_is_cut(start_agent: StartAgent) -> None:
    agent = start_agent(flash_limit_bytes=0)
    client = BlockClient(agent.url, agent.password_file, 16 << 20, 2)
    keys = [trace_block_key("test", number) for number in range(9)]
    client.store([(key, b"small") for key in keys])
    assert client.fetch(keys) == [b"small"] * 9
    assert agent.metrics()['kvfabric_agent_command_duration_seconds_count{command="mget"}'] == 3


def test_reply_error_is_told_from_a_broken_connection(start_agent: StartAgent) -> None:
    agent = start_agent(flash_limit_bytes=0, max_arguments=16)
    client = BlockClient(agent.url, agent.password_file, PAYLOAD_BYTES, 2)
    with pytest.raises(BlockError) as caught:
        client.fetch([b"k%d" % number for number in range(100)])
    assert caught.value.kind in {"reply", "connection"}


def test_share_of_flash_hits_follows_the_agents_counters(start_agent: StartAgent) -> None:
    agent = start_agent(dram_limit_bytes=4 * 40960, flash_limit_bytes="64MiB")
    client = BlockClient(agent.url, agent.password_file, 4096, 2)
    keys = [b"key%d" % number for number in range(40)]
    for key in keys:
        client.store([(key, bytes(4096))])
    assert client.flash_share() == 0
    for key in keys[:10]:
        assert client.fetch([key]) == [bytes(4096)]
    client._look_again_s = 0
    assert client.flash_share() == 1
    _redis(agent).close()


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("capacity_blocks", [1828, 18279], ids=["1 %", "10 %"])
def test_agent_counts_what_the_simulator_counts_on_mooncake_conversation(
    start_agent: StartAgent, player_for: PlayerFor, conversation: Sequence, capacity_blocks: int
) -> None:
    agent = start_agent(dram_limit_bytes=4 * capacity_blocks * PAYLOAD_BYTES, flash_limit_bytes=0)
    player = player_for(agent)
    for one in conversation:
        player.play(one)
    expected = simulate(conversation, capacity_blocks=capacity_blocks)
    counted, played = agent.metrics(), player.counted()
    hits = counted['kvfabric_agent_lookup_blocks_total{result="dram"}']
    assert hits + counted['kvfabric_agent_lookup_blocks_total{result="miss"}'] == expected.accesses
    assert hits == expected.block_hits == played['kvfabric_replay_blocks_total{result="hit"}']
    assert counted["kvfabric_agent_prefix_lookup_blocks_total"] == expected.accesses
    assert counted["kvfabric_agent_prefix_hit_blocks_total"] == expected.prefix_hits
    assert played["kvfabric_replay_prefix_hit_blocks_total"] == expected.prefix_hits
    assert played["kvfabric_replay_wrong_blocks_total"] == 0
    assert played['vllm:external_prefix_cache_hits_total{model_name="llama-3.1-8b"}'] == expected.hit_tokens


@pytest.mark.shared
def test_two_tiers_count_what_the_simulator_counts(
    start_agent: StartAgent, player_for: PlayerFor, conversation: Sequence
) -> None:
    requests = conversation[:600]
    limits = TierLimits(dram_bytes=4 * 300 * 4096, flash_bytes=2 * 1500 * 8192)
    agent = start_agent(dram_limit_bytes=limits.dram_bytes, flash_limit_bytes=limits.flash_bytes, flash_slot_bytes=8192)
    player = player_for(agent, payload_bytes=4096)
    for one in requests:
        player.play(one)
    expected = simulate(requests, resolve(default_policy(), limits), block_bytes=4096)
    counted = agent.metrics()
    hits = {tier: counted[f'kvfabric_agent_lookup_blocks_total{{result="{tier}"}}'] for tier in ("dram", "flash")}
    assert min(hits.values()) > 100
    assert sum(hits.values()) == expected.block_hits
    assert counted["kvfabric_agent_prefix_hit_blocks_total"] == expected.prefix_hits
    assert player.counted()["kvfabric_replay_wrong_blocks_total"] == 0


def _redis(agent: RunningAgent) -> redis.Redis:
    return redis.Redis(port=agent.resp_port, password=agent.password_file.read_text().strip())
