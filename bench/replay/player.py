"""Plays one request as an engine would: look up all blocks, use the leading run, store what was missing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import xxhash

from bench.replay.client import BlockError
from bench.replay.costing import CostModel
from bench.replay.metrics import ReplayMetrics
from bench.replay.payload import PayloadMaker
from kvcache.keys import trace_block_key
from kvcache.trace import Request


class Blocks(Protocol):
    """One agent as the player sees it."""

    def fetch(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the payload of each key, None for a miss. Raises `BlockError`."""

    def store(self, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        """Store (key, payload) pairs, head first. Raises `BlockError`."""

    def flash_share(self) -> float:
        """Return the share (0..1) of recent hits that came from flash."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request, in blocks. `wrong` blocks had bytes that are not theirs and count as misses."""

    hit: int
    miss: int
    prefix: int
    wrong: int
    fetch_s: float
    errors: tuple[str, ...] = ()


class Player:
    """Plays requests against agents and counts. Thread-safe as far as its agents are."""

    def __init__(
        self,
        agents: Sequence[Blocks],
        maker: PayloadMaker,
        metrics: ReplayMetrics,
        costs: CostModel,
        namespace: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`namespace` goes into every key: blocks of another model, trace or payload size are other blocks."""
        self._agents = agents
        self._maker = maker
        self._metrics = metrics
        self._costs = costs
        self._namespace = namespace
        self._clock = clock

    def play(self, request: Request) -> Outcome:
        """Play one request and count it. An agent that does not serve means misses: an engine would recompute."""
        agent = self._agents[_shard(request, len(self._agents))]
        keys = [trace_block_key(self._namespace, block_id) for block_id in request.block_ids]
        errors: list[str] = []
        started_s = self._clock()
        found = _fetch(agent, keys, errors)
        fetch_s = self._clock() - started_s
        right = [self._is_right(key, value) for key, value in zip(keys, found, strict=True)]
        missing = [key for key, is_right in zip(keys, right, strict=True) if not is_right]
        if missing and not errors:
            _store(agent, [(key, self._maker.make(key)) for key in missing], errors)
        hit = len(keys) - len(missing)
        outcome = Outcome(
            hit=hit,
            miss=len(missing),
            prefix=right.index(False) if missing else len(keys),
            wrong=sum(value is not None for value in found) - hit,
            fetch_s=fetch_s,
            errors=tuple(errors),
        )
        self._count(request, outcome, agent.flash_share())
        return outcome

    def _is_right(self, key: bytes, value: bytes | None) -> bool:
        return value is not None and self._maker.matches(key, value)

    def _count(self, request: Request, outcome: Outcome, flash_share: float) -> None:
        metrics = self._metrics
        hit_tokens = request.tokens_in_prefix(outcome.prefix)
        cost = self._costs.cost(request.input_tokens, hit_tokens, flash_share, outcome.fetch_s)
        metrics.requests.inc()
        metrics.prompt_tokens.inc(request.input_tokens)
        metrics.generation_tokens.inc(request.output_tokens)
        metrics.query_tokens.inc(request.input_tokens)
        metrics.hit_tokens.inc(hit_tokens)
        metrics.blocks["hit"].inc(outcome.hit)
        metrics.blocks["miss"].inc(outcome.miss)
        metrics.prefix_hit_blocks.inc(outcome.prefix)
        metrics.verified_blocks.inc(outcome.hit)
        metrics.wrong_blocks.inc(outcome.wrong)
        for kind in outcome.errors:
            metrics.errors[kind].inc()
        metrics.fetch_s.observe(outcome.fetch_s)
        metrics.ttft_s.observe(cost.ttft_s)
        metrics.energy_joules["gpu_prefill"].inc(cost.prefill_joules)
        metrics.energy_joules["fetch_dram"].inc(cost.fetch_dram_joules)
        metrics.energy_joules["fetch_flash"].inc(cost.fetch_flash_joules)
        metrics.energy_saved_joules.inc(cost.saved_joules)


def _fetch(agent: Blocks, keys: list[bytes], errors: list[str]) -> list[bytes | None]:
    try:
        return agent.fetch(keys) if keys else []
    except BlockError as error:
        errors.append(error.kind)
        return [None] * len(keys)


def _store(agent: Blocks, blocks: list[tuple[bytes, bytes]], errors: list[str]) -> None:
    try:
        agent.store(blocks)
    except BlockError as error:
        errors.append(error.kind)


def _shard(request: Request, agents: int) -> int:
    """Return the agent for a request: the same for all turns of a session, else for all with the same first block."""
    if agents == 1:
        return 0
    name = request.session or str(request.block_ids[0] if request.block_ids else "")
    return xxhash.xxh3_64_intdigest(name.encode()) % agents
