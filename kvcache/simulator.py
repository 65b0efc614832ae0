"""Replays a trace through the very classes that the storage agent runs, and counts."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kvcache.policy import EvictionName, ResolvedPolicy, ResolvedTier
from kvcache.tiering import Move, Reason, Tier, TieredCache
from kvcache.trace import Request

EXPIRE_STEP = 256
"""How many expired keys are dropped before each request, as an agent does between requests."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Counts of one replay, in blocks unless the name says tokens; ratios are of all blocks or all input tokens.

    A block hit is a block that was there; a prefix hit is one of the leading run without a gap, the only ones an
    engine can use. `evictions` counts copies dropped for room, `flash_writes` every copy written to flash.
    """

    requests: int
    accesses: int
    unique_blocks: int
    block_hits: int
    prefix_hits: int
    dram_prefix_hits: int
    flash_prefix_hits: int
    full_hit_requests: int
    input_tokens: int
    hit_tokens: int
    inserts: int
    refused: int
    evictions: int
    promotions: int
    demotions: int
    expirations: int
    flash_writes: int

    @property
    def block_hit_ratio(self) -> float | None:
        """Block hits per block asked for; None for an empty trace."""
        return _ratio(self.block_hits, self.accesses)

    @property
    def prefix_hit_ratio(self) -> float | None:
        """Prefix hits per block asked for; None for an empty trace."""
        return _ratio(self.prefix_hits, self.accesses)

    @property
    def token_hit_ratio(self) -> float | None:
        """Input tokens in prefix hits per input token; None for an empty trace."""
        return _ratio(self.hit_tokens, self.input_tokens)


def block_policy(dram_blocks: int, flash_blocks: int = 0, *, eviction: EvictionName = "lru") -> ResolvedPolicy:
    """Return a policy whose tiers hold that many blocks of size 1 each: capacities counted in blocks."""
    return ResolvedPolicy(
        dram=ResolvedTier.of_bytes(dram_blocks, eviction), flash=ResolvedTier.of_bytes(flash_blocks, eviction)
    )


def simulate(
    requests: Iterable[Request],
    policy: ResolvedPolicy | None = None,
    *,
    capacity_blocks: int | None = None,
    eviction: EvictionName = "lru",
    block_bytes: int = 1,
) -> SimulationResult:
    """Replay `requests` in order: look all blocks of a request up, then insert the missing ones.

    Give a `policy` and the bytes charged for a block, or `capacity_blocks` of DRAM alone. Time is the trace's.

    Raises:
        ValueError: not exactly one of `policy` and `capacity_blocks`, or a block of no bytes.
        TraceError: from a trace that is read while it is replayed.
    """
    if (policy is None) == (capacity_blocks is None):
        raise ValueError("give exactly one of policy and capacity_blocks")
    if block_bytes < 1:
        raise ValueError(f"block_bytes is {block_bytes}; give at least 1")
    if policy is None:
        policy = block_policy((capacity_blocks or 0) * block_bytes, eviction=eviction)
    replay = _Replay(policy, block_bytes)
    for request in requests:
        replay.play(request)
    return replay.result()


class _Replay:
    def __init__(self, policy: ResolvedPolicy, block_bytes: int) -> None:
        self._cache = TieredCache(policy)
        self._block_bytes = block_bytes
        self._timed = policy.dram.ttl_s is not None or policy.flash.ttl_s is not None
        self._seen: set[int] = set()
        self._count: Counter[str] = Counter()
        self._moves: Counter[tuple[Tier | None, Reason]] = Counter()

    def play(self, request: Request) -> None:
        now_s = request.timestamp_ms / 1000
        if self._timed:
            self._note(self._cache.expire(now_s, EXPIRE_STEP))
        keys = [block_id.to_bytes(8, "big") for block_id in request.block_ids]
        lookup = self._cache.lookup(keys, now_s)
        missing = [(key, self._block_bytes) for key, tier in zip(keys, lookup.tiers, strict=True) if tier is None]
        self._note(lookup.moves)
        if missing:
            insert = self._cache.insert(missing, now_s)
            self._note(insert.moves)
            self._count["refused"] += insert.admitted.count(False)
        self._seen.update(request.block_ids)
        prefix = lookup.tiers[: lookup.prefix_blocks]
        self._count.update(
            requests=1,
            accesses=len(keys),
            block_hits=len(keys) - len(missing),
            dram_prefix_hits=prefix.count(Tier.DRAM),
            flash_prefix_hits=prefix.count(Tier.FLASH),
            full_hit_requests=not missing,
            input_tokens=request.input_tokens,
            hit_tokens=request.tokens_in_prefix(lookup.prefix_blocks),
        )

    def result(self) -> SimulationResult:
        count, moves = self._count, self._moves
        by_reason: Counter[Reason] = Counter()
        for (_, reason), number in moves.items():
            by_reason[reason] += number
        return SimulationResult(
            requests=count["requests"],
            accesses=count["accesses"],
            unique_blocks=len(self._seen),
            block_hits=count["block_hits"],
            prefix_hits=count["dram_prefix_hits"] + count["flash_prefix_hits"],
            dram_prefix_hits=count["dram_prefix_hits"],
            flash_prefix_hits=count["flash_prefix_hits"],
            full_hit_requests=count["full_hit_requests"],
            input_tokens=count["input_tokens"],
            hit_tokens=count["hit_tokens"],
            inserts=by_reason[Reason.ADMIT],
            refused=count["refused"],
            evictions=by_reason[Reason.EVICT],
            promotions=moves[Tier.DRAM, Reason.PROMOTE],
            demotions=by_reason[Reason.DEMOTE],
            expirations=by_reason[Reason.EXPIRE],
            flash_writes=sum(number for (target, _), number in moves.items() if target is Tier.FLASH),
        )

    def _note(self, moves: list[Move]) -> None:
        for move in moves:
            self._moves[move.target, move.reason] += 1


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
