"""Block reuse statistics of a trace: `python -m kvcache.trace.stats FILE` or `generator:PRESET[:SEED[:REQUESTS]]`."""

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kvcache.trace.generator import PRESETS, generate
from kvcache.trace.reader import TraceError, read_trace
from kvcache.trace.request import Request

DEFAULT_REQUESTS = 12_000
PERCENTILES = (50, 90, 99)
USAGE = f"usage: python -m kvcache.trace.stats FILE | generator:{{{'|'.join(PRESETS)}}}[:SEED[:REQUESTS]]"


@dataclass(frozen=True, slots=True)
class TraceStats:
    """What a trace's blocks do. Ratios are None for an empty trace.

    `reuse_ratio` is the block hit ratio of an infinite cache and `token_reuse_ratio` the same by input tokens in the
    leading run of known blocks; `used_once_ratio` is of distinct blocks; a reuse gap is the time between one use of a
    block and the next, in seconds.
    """

    requests: int
    accesses: int
    unique_blocks: int
    sessions: int
    block_tokens: int
    duration_s: float
    mean_input_tokens: float | None
    mean_output_tokens: float | None
    reuse_ratio: float | None
    token_reuse_ratio: float | None
    used_once_ratio: float | None
    reuse_gap_s: dict[int, float]


def measure(requests: Iterable[Request]) -> TraceStats:
    """Return the statistics of `requests`, which are read once."""
    last_use_s: dict[int, float] = {}
    used_again: set[int] = set()
    sessions: set[str] = set()
    gaps_s = array("d")
    count = accesses = inputs = outputs = known_tokens = block_tokens = 0
    first_s = last_s = 0.0
    for request in requests:
        now_s = last_s = request.timestamp_ms / 1000
        first_s = now_s if not count else first_s
        known = _leading_known(request, last_use_s)
        for block_id in request.block_ids:
            if block_id in last_use_s:
                gaps_s.append(now_s - last_use_s[block_id])
                used_again.add(block_id)
            last_use_s[block_id] = now_s
        count += 1
        accesses += len(request.block_ids)
        inputs += request.input_tokens
        outputs += request.output_tokens
        known_tokens += request.tokens_in_prefix(known)
        block_tokens = request.block_tokens
        if request.session is not None:
            sessions.add(request.session)
    ordered = sorted(gaps_s)
    return TraceStats(
        requests=count,
        accesses=accesses,
        unique_blocks=len(last_use_s),
        sessions=len(sessions),
        block_tokens=block_tokens,
        duration_s=last_s - first_s,
        mean_input_tokens=_ratio(inputs, count),
        mean_output_tokens=_ratio(outputs, count),
        reuse_ratio=_ratio(len(gaps_s), accesses),
        token_reuse_ratio=_ratio(known_tokens, inputs),
        used_once_ratio=_ratio(len(last_use_s) - len(used_again), len(last_use_s)),
        reuse_gap_s={percent: _percentile(ordered, percent) for percent in PERCENTILES if ordered},
    )


def report(stats: TraceStats) -> str:
    """Return the statistics as lines of text, one value each; what cannot be known is a dash."""

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.2f} %"

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.0f}"

    gaps = ", ".join(f"P{at} {gap_s:.1f} s" for at, gap_s in stats.reuse_gap_s.items()) or "-"
    rows = (
        ("requests", str(stats.requests)),
        ("sessions named", str(stats.sessions) if stats.sessions else "-"),
        ("block size", f"{stats.block_tokens} tokens"),
        ("duration", f"{stats.duration_s:.0f} s"),
        ("mean input, output", f"{number(stats.mean_input_tokens)}, {number(stats.mean_output_tokens)} tokens"),
        ("block accesses", str(stats.accesses)),
        ("unique blocks", str(stats.unique_blocks)),
        ("infinite block hit ratio", percent(stats.reuse_ratio)),
        ("infinite token hit ratio", percent(stats.token_reuse_ratio)),
        ("blocks used once", percent(stats.used_once_ratio)),
        ("reuse gap", gaps),
    )
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)


def requests_of(source: str) -> Iterable[Request]:
    """Return the requests of a file, or of a preset written `generator:NAME[:SEED[:REQUESTS]]` (seed 1 by default).

    Raises:
        ValueError: an unknown preset, or a seed or number that is none.
    """
    if not source.startswith("generator:"):
        return read_trace(Path(source))
    _, name, *numbers = source.split(":")
    if name not in PRESETS or len(numbers) > 2 or not all(text.isascii() and text.isdigit() for text in numbers):
        raise ValueError(f"{source!r} names no generator; {USAGE}")
    seed, count = (int(text) for text in (*numbers, *("1", str(DEFAULT_REQUESTS))[len(numbers) :]))
    return islice(generate(PRESETS[name], seed), count)


def main(arguments: Sequence[str]) -> int:
    """Print the statistics of one source; return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write(USAGE + "\n")
        return 2
    try:
        sys.stdout.write(report(measure(requests_of(arguments[0]))))
    except (TraceError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _leading_known(request: Request, known: dict[int, float]) -> int:
    for position, block_id in enumerate(request.block_ids):
        if block_id not in known:
            return position
    return len(request.block_ids)


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the value at that rank, counted as the reference notes do: index floor(n p / 100)."""
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
