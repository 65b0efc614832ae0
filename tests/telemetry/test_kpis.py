"""Each KPI's value by hand, and what no data means."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from telemetry.kpis import BY_NAME, CATALOG, KPIS, evaluate, selectors_of
from telemetry.series.deltas import DeltaWalker, Scrape
from telemetry.series.expressions import Rate
from telemetry.series.slices import Slice, slice_of_step


def slice_between(
    before: Mapping[str, float], after: Mapping[str, float], seconds: float = 2.0, host: str = ""
) -> Slice:
    """Return the slice of two scrapes that far apart."""
    walker = DeltaWalker()
    parsed = [{CATALOG.from_text(text): value for text, value in page.items()} for page in (before, after)]
    assert None not in parsed[0] | parsed[1]
    known = frozenset(s for page in parsed for s in page if s)
    walker.step(Scrape(0.0, {s: v for s, v in parsed[0].items() if s}, known))
    step = walker.step(Scrape(seconds, {s: v for s, v in parsed[1].items() if s}, known))
    assert step is not None
    return slice_of_step(step, host)


def value(name: str, *slices: Slice) -> float | None:
    return evaluate([BY_NAME[name]], slices)[name]


def grown(increases: Mapping[str, float], host: str = "") -> Slice:
    return slice_between(
        dict.fromkeys(increases, 5.0), {text: 5.0 + more for text, more in increases.items()}, host=host
    )


AGENT = grown(
    {
        "kvfabric_agent_prefix_lookup_blocks_total": 100,
        "kvfabric_agent_prefix_hit_blocks_total": 30,
        'kvfabric_agent_lookup_blocks_total{result="dram"}': 20,
        'kvfabric_agent_lookup_blocks_total{result="flash"}': 30,
        'kvfabric_agent_lookup_blocks_total{result="miss"}': 50,
        'kvfabric_agent_get_bytes_total{tier="dram"}': 1000,
        'kvfabric_agent_get_bytes_total{tier="flash"}': 3000,
        "kvfabric_agent_set_bytes_total": 600,
        'kvfabric_agent_evicted_blocks_total{tier="dram",reason="evict"}': 4,
        'kvfabric_agent_evicted_blocks_total{tier="flash",reason="shrink"}': 2,
        'kvfabric_agent_evicted_blocks_total{tier="flash",reason="expire"}': 90,
    }
)
REPLAY = grown(
    {
        "vllm:prompt_tokens_total": 900,
        "vllm:generation_tokens_total": 100,
        "vllm:external_prefix_cache_queries_total": 900,
        "vllm:external_prefix_cache_hits_total": 450,
        'vllm:time_to_first_token_seconds_bucket{le="0.1"}': 50,
        'vllm:time_to_first_token_seconds_bucket{le="0.2"}': 90,
        'vllm:time_to_first_token_seconds_bucket{le="+Inf"}': 100,
        "vllm:time_to_first_token_seconds_count": 100,
        "vllm:time_to_first_token_seconds_sum": 12,
        "kvfabric_replay_trace_seconds_total": 40,
        'kvfabric_replay_energy_joules_total{component="gpu_prefill"}': 3000,
        'kvfabric_replay_energy_joules_total{component="fetch_dram"}': 1000,
        "kvfabric_replay_energy_saved_joules_total": 800,
    }
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("prefix_hit_ratio_blocks", 0.3),
        ("prefix_hit_ratio_tokens", 0.5),
        ("lookup_share_dram", 0.2),
        ("lookup_share_flash", 0.3),
        ("lookup_share_miss", 0.5),
        ("ttft_p50_s", 0.1),
        ("ttft_p95_s", 0.2),
        ("power_w", 100.0),
        ("energy_per_token_j", 4.0),
        ("energy_saved_w", 20.0),
        ("get_bytes_per_s", 2000.0),
        ("set_bytes_per_s", 300.0),
        ("evictions_per_s", 3.0),
        ("requests_per_s", 50.0),
        ("tokens_per_s", 500.0),
        ("host_power_w", None),
        ("stored_bytes_dram", None),
    ],
)
def test_kpi_of_one_agent_and_one_replay_client(name: str, expected: float | None) -> None:
    found = value(name, AGENT, REPLAY)
    assert found == (None if expected is None else pytest.approx(expected))


def test_every_kpi_without_data_is_null() -> None:
    assert set(evaluate(KPIS, []).values()) == {None}
    assert set(evaluate(KPIS, [Slice()]).values()) == {None}


def test_ratio_where_nothing_was_asked_is_null_and_rate_is_zero() -> None:
    idle = grown(
        {
            "kvfabric_agent_prefix_lookup_blocks_total": 0,
            "kvfabric_agent_prefix_hit_blocks_total": 0,
            "kvfabric_agent_set_bytes_total": 0,
        }
    )
    assert value("prefix_hit_ratio_blocks", idle) is None
    assert value("set_bytes_per_s", idle) == 0.0


def test_engine_without_energy_does_not_dilute_joules_per_token() -> None:
    engine = grown({"vllm:prompt_tokens_total": 1e9, "vllm:generation_tokens_total": 1e9})
    assert value("energy_per_token_j", REPLAY, engine) == pytest.approx(4.0)
    assert value("energy_per_token_j", engine) is None


def test_power_of_two_replay_clients_adds_up_each_on_its_own_clock() -> None:
    fast = grown({"kvfabric_replay_trace_seconds_total": 400, "kvfabric_replay_energy_joules_total": 4000})
    assert value("power_w", REPLAY, fast) == pytest.approx(110.0)


def test_replay_that_stands_still_has_no_power() -> None:
    still = grown({"kvfabric_replay_trace_seconds_total": 0, "kvfabric_replay_energy_joules_total": 0})
    assert value("power_w", still) is None


def test_host_energy_counts_packages_and_dram_once_per_host() -> None:
    domains = {
        'kvfabric_host_energy_joules_total{domain="package-0"}': 100,
        'kvfabric_host_energy_joules_total{domain="package-0/core"}': 70,
        'kvfabric_host_energy_joules_total{domain="package-0/dram"}': 20,
        'kvfabric_host_energy_joules_total{domain="psys"}': 300,
    }
    assert value("host_power_w", grown(domains, "h1")) == pytest.approx(60.0)
    assert value("host_power_w", grown(domains, "h1"), grown(domains, "h1")) == pytest.approx(60.0)
    assert value("host_power_w", grown(domains, "h1"), grown(domains, "h2")) == pytest.approx(120.0)
    assert value("host_power_w", grown({'kvfabric_host_energy_joules_total{domain="psys"}': 300})) is None


def test_stored_bytes_add_up_over_agents_by_tier() -> None:
    pages = [
        {'kvfabric_agent_stored_bytes{tier="dram"}': 10.0 * i, 'kvfabric_agent_stored_bytes{tier="flash"}': 7.0}
        for i in (1, 2)
    ]
    slices = [slice_between({}, page) for page in pages]
    assert value("stored_bytes_dram", *slices) == 30.0
    assert value("stored_bytes_flash", *slices) == 14.0


def test_percentiles_are_of_the_merged_histogram() -> None:
    def histogram(fast: float, slow: float) -> Slice:
        name = "vllm:time_to_first_token_seconds_bucket"
        return grown(
            {f'{name}{{le="1"}}': fast, f'{name}{{le="10"}}': fast + slow, f'{name}{{le="+Inf"}}': fast + slow}
        )

    crowd, straggler = histogram(990, 0), histogram(0, 10)
    assert value("ttft_p50_s", crowd, straggler) == pytest.approx(500 / 990)
    assert value("ttft_p99_s", crowd, straggler) == pytest.approx(1.0)
    assert value("ttft_p99_s", straggler) == pytest.approx(1 + 9 * 0.99)


def test_catalogue_is_closed_and_each_source_metric_is_in_the_contract() -> None:
    from tests.conftest import ROOT

    contract = (ROOT / "docs" / "contracts.md").read_text()
    for selector in selectors_of(KPIS):
        stem = selector.family.name.removeprefix("kvfabric_agent")
        assert stem in contract or selector.family.name in contract, selector.family.name
    assert CATALOG.series("up", {}) is None


def test_formulas_name_their_sources() -> None:
    for kpi in KPIS:
        for source in kpi.sources:
            assert source in kpi.formula, kpi.name
        assert kpi.aggregation


def test_rate_is_not_counted_twice_when_a_host_has_no_name() -> None:
    rate = BY_NAME["host_power_w"].expression
    assert isinstance(rate, Rate)
    nameless = grown({'kvfabric_host_energy_joules_total{domain="package-0"}': 100})
    assert rate.evaluate([nameless, replace(nameless)]) == pytest.approx(100.0)
    assert math.isfinite(rate.evaluate([nameless]) or 0.0)
