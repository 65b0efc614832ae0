"""Generated traces: reproducible, true to their parameters, like the published ones where the docs say so."""

import hashlib
import io
import subprocess
import sys
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import pytest

from kvcache.simulator import simulate
from kvcache.trace import Request, read_trace, write_trace
from kvcache.trace.generator import PRESETS, GeneratorParameters, Spread, generate, with_rate
from kvcache.trace.stats import measure

ROOT = Path(__file__).resolve().parents[3]
presets = pytest.mark.parametrize("name", sorted(PRESETS))


def _digest(requests: list[Request]) -> str:
    stream = io.BytesIO()
    write_trace(requests, stream, compress=False)
    return hashlib.sha256(stream.getvalue()).hexdigest()


@presets
def test_generate_same_seed_is_the_same_in_another_process(name: str) -> None:
    code = (
        "import hashlib, io\n"
        "from kvcache.trace import write_trace\n"
        "from kvcache.trace.generator import PRESETS, generate\n"
        "stream = io.BytesIO()\n"
        f"write_trace(generate(PRESETS[{name!r}], 7, requests=300), stream, compress=False)\n"
        "print(hashlib.sha256(stream.getvalue()).hexdigest())\n"
    )
    other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == _digest(list(generate(PRESETS[name], 7, requests=300)))


@presets
def test_generate_other_seed_is_another_trace(name: str) -> None:
    first, second = (list(generate(PRESETS[name], seed, requests=50)) for seed in (1, 2))
    assert _digest(first) != _digest(second)


@presets
def test_generate_fewer_requests_is_a_prefix_of_more(name: str) -> None:
    assert list(generate(PRESETS[name], 3, requests=100)) == list(islice(generate(PRESETS[name], 3), 100))


@presets
def test_generate_passes_the_reader_unchanged(name: str) -> None:
    requests = list(generate(PRESETS[name], 1, requests=500))
    stream = io.BytesIO()
    write_trace(requests, stream)
    stream.seek(0)
    assert list(read_trace(stream)) == requests


@presets
def test_generate_ids_are_chained_prefixes(name: str) -> None:
    """An id names a whole prefix: it has one parent, and one place in every request."""
    parent: dict[int, int] = {}
    for request in generate(PRESETS[name], 5, requests=1500):
        for before, block_id in pairwise((-1, *request.block_ids)):
            assert parent.setdefault(block_id, before) == before
    assert set(parent) == set(range(len(parent)))


@presets
def test_generate_prompts_stay_within_the_context_and_fill_their_blocks(name: str) -> None:
    parameters = PRESETS[name]
    for request in generate(parameters, 2, requests=2000):
        assert request.input_tokens <= parameters.max_context_tokens
        full, rest = divmod(request.input_tokens, parameters.block_tokens)
        assert len(request.block_ids) == full + (1 if rest and parameters.partial_tail else 0)


def test_generate_prompt_of_a_session_grows_until_it_is_compacted() -> None:
    parameters = replace(PRESETS["agentic"], max_context_tokens=50_000)
    last: dict[str | None, Request] = {}
    compacted = grown = 0
    for request in generate(parameters, 1, requests=3000):
        before = last.get(request.session)
        last[request.session] = request
        if before is None:
            continue
        if request.input_tokens < before.input_tokens:
            compacted += 1
            assert request.block_ids[:5] == before.block_ids[:5]
        else:
            grown += 1
            assert request.input_tokens > before.input_tokens + before.output_tokens - 1
            assert request.block_ids[: len(before.block_ids)] == before.block_ids
            assert request.timestamp_ms > before.timestamp_ms
    assert compacted > 20
    assert grown > 1000


def test_generate_sessions_share_system_prompts_and_contexts() -> None:
    firsts: dict[str | None, Request] = {}
    for request in generate(PRESETS["agentic"], 1, requests=3000):
        firsts.setdefault(request.session, request)
    systems = {request.block_ids[0] for request in firsts.values()}
    assert 1 < len(systems) <= PRESETS["agentic"].system_prompts < len(firsts)


def test_generate_partial_tail_is_new_in_every_request() -> None:
    tails = [
        request.block_ids[-1] for request in generate(PRESETS["chat"], 1, requests=500) if request.input_tokens % 512
    ]
    assert len(set(tails)) == len(tails) > 400


def test_with_rate_brings_sessions_faster() -> None:
    slow = measure(generate(PRESETS["chat"], 1, requests=2000))
    fast = measure(generate(with_rate(PRESETS["chat"], 4.0), 1, requests=2000))
    assert fast.duration_s < slow.duration_s / 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session_rate_per_s", 0.0),
        ("session_rate_per_s", float("inf")),
        ("session_rate_per_s", float("nan")),
        ("system_prompts", 0),
        ("block_tokens", -1),
        ("tool_calls", -1.0),
        ("popularity", float("nan")),
        ("single_turn_share", 1.5),
        ("max_context_tokens", 1000),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        replace(PRESETS["agentic"], **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [(1, 1, 2, 3), (1, 1, 0, 0.5), (0, 1, 0, 1), (1, -1, 0, 2), (1, 1, -1, 2)])
def test_spread_that_is_none_is_refused(values: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="least <= median"):
        Spread(*values)


def test_presets_are_within_what_the_documentation_states() -> None:
    """docs/traces.md compares these with the published traces; both must be changed together."""
    agentic = measure(generate(PRESETS["agentic"], 1, requests=12_000))
    assert agentic.reuse_ratio == pytest.approx(0.9625, abs=0.01)
    assert agentic.used_once_ratio == pytest.approx(0.065, abs=0.02)
    assert agentic.reuse_gap_s[90] == pytest.approx(130, rel=0.15)
    chat = measure(generate(PRESETS["chat"], 1, requests=12_000))
    assert chat.reuse_ratio == pytest.approx(0.3664, abs=0.02)
    assert chat.used_once_ratio == pytest.approx(0.758, abs=0.02)
    assert chat.mean_input_tokens == pytest.approx(12_035, rel=0.05)
    assert chat.mean_output_tokens == pytest.approx(343, rel=0.05)
    assert chat.reuse_gap_s[50] == pytest.approx(114, rel=0.15)
    assert chat.reuse_gap_s[90] == pytest.approx(519, rel=0.15)


def test_presets_capacity_moves_the_hit_ratio() -> None:
    """What the live charts show when an operator changes a share."""
    for name, parameters in PRESETS.items():
        requests = list(generate(parameters, 1, requests=3000))
        unique = len({block_id for request in requests for block_id in request.block_ids})
        small, large = (simulate(requests, capacity_blocks=unique * percent // 100) for percent in (2, 20))
        assert (large.prefix_hit_ratio or 0) > (small.prefix_hit_ratio or 0) + 0.1, name


def _one(parameters: GeneratorParameters) -> Request:
    return next(iter(generate(parameters, 1)))


def test_generate_first_request_begins_at_zero() -> None:
    assert _one(PRESETS["chat"]).timestamp_ms == 0.0
    assert _one(PRESETS["chat"]).block_ids[0] == 0
