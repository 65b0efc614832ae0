"""The cost models against the published figures of the reference notes."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from kvcache.cost import (
    HARDWARE,
    MODELS,
    Basis,
    HardwareProfile,
    Quantity,
    TierLink,
    fetch_joules,
    fetch_pays,
    fetch_seconds,
    prefill_flops,
    prefill_seconds,
    recompute_joules,
    ttft_from_fetch_seconds,
    ttft_seconds,
)

LLAMA_8B, LLAMA_70B, LLAMA_405B = (MODELS[f"llama-3.1-{size}"] for size in ("8b", "70b", "405b"))
H100 = HARDWARE["h100-bf16"]


def _link(bytes_per_s: float, latency_s: float = 0.0) -> TierLink:
    def given(value: float, unit: str) -> Quantity:
        return Quantity(value, unit, Basis.DECLARED, "test")

    return TierLink(given(latency_s, "s"), given(bytes_per_s, "byte/s"), given(1.0, "J/GB"))


def _seconds(value: float) -> Quantity:
    return Quantity(value, "s", Basis.DECLARED, "test")


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("llama-3.1-405b", 516_096),
        ("qwen3-32b", 262_144),
        ("qwen3-235b-a22b", 192_512),
        ("deepseek-v3", 70_272),
    ],
)
def test_kv_bytes_per_token_equal_the_table_and_fp8_halves_them(name: str, size_bytes: int) -> None:
    assert MODELS[name].kv_bytes_per_token == size_bytes
    assert MODELS[name].with_kv_dtype_bytes(1).kv_bytes_per_token == size_bytes // 2


def test_prefill_flops_attention_equals_the_linear_part_at_53_9_k_tokens() -> None:
    """Marginal cost at position x is 2P + 4 l d x; for the 70B model both parts are equal at 53.9 k."""
    at = 53_860
    marginal = prefill_flops(LLAMA_70B, at + 1, at)
    assert marginal == pytest.approx(2 * 2 * LLAMA_70B.active_parameters, rel=1e-3)
    assert prefill_flops(LLAMA_70B, 128_000 + 1, 128_000) / prefill_flops(LLAMA_70B, 1) == pytest.approx(3.4, abs=0.03)


def test_prefill_flops_add_up_over_any_split() -> None:
    whole = prefill_flops(LLAMA_70B, 9000)
    assert prefill_flops(LLAMA_70B, 4000) + prefill_flops(LLAMA_70B, 9000, 4000) == pytest.approx(whole, rel=1e-12)
    assert prefill_flops(LLAMA_70B, 9000, 9000) == 0


@pytest.mark.parametrize(("n", "p"), [(5, 6), (5, -1)])
def test_prefill_flops_prefix_outside_the_prompt_is_refused(n: int, p: int) -> None:
    with pytest.raises(ValueError, match="0 <= p <= n"):
        prefill_flops(LLAMA_8B, n, p)


@pytest.mark.shared
def test_model_equals_the_reference_checks(shared_dir: Path) -> None:
    with (shared_dir / "traces" / "ground_truth" / "ttft_checks.csv").open(newline="") as lines:
        rows = {row["quantity"]: row["model"] for row in csv.DictReader(lines)}

    def want(part: str) -> float:
        return float(next(value for name, value in rows.items() if part in name))

    assert _least_bandwidth_gb_per_s("a800-bf16") == pytest.approx(want("MFU 100%), 8xA800"), rel=1e-9)
    assert _least_bandwidth_gb_per_s("h800-bf16") == pytest.approx(want("MFU 100%), 8xH800"), rel=1e-9)
    assert _prefill_saved_percent() == pytest.approx(want("prefill time reduction"), rel=1e-9)
    assert _ttft_405b_s() == pytest.approx(want("405B TTFT"), rel=1e-9)
    assert _pegaflow_warm_s() * 1000 == pytest.approx(want("warm TTFT"), rel=1e-9)


def test_model_is_as_near_to_the_published_figures_as_the_notes_say() -> None:
    assert _least_bandwidth_gb_per_s("a800-bf16") == pytest.approx(6, rel=0.11)
    assert _least_bandwidth_gb_per_s("h800-bf16") == pytest.approx(19, rel=0.11)
    assert _prefill_saved_percent() == pytest.approx(92, rel=0.005)
    assert _ttft_405b_s() == pytest.approx(7.5, rel=0.12)
    assert _pegaflow_warm_s() == pytest.approx(0.0615, rel=0.02)
    cold_s = prefill_seconds(LLAMA_8B, HARDWARE["h800-bf16"].with_gpus(1, mfu=0.55), 10_000)
    assert cold_s == pytest.approx(0.343, rel=0.005)


def _least_bandwidth_gb_per_s(hardware: str, prefix: int = 8192) -> float:
    """Mooncake (FAST'25), equation 2: the bandwidth above which loading a prefix beats computing it, MFU 100 %."""
    eight = HARDWARE[hardware].with_gpus(8, mfu=1.0)
    return prefix * LLAMA_70B.kv_bytes_per_token / prefill_seconds(LLAMA_70B, eight, prefix) / 1e9


def _prefill_saved_percent() -> float:
    n = 131_072
    return 100 * (1 - prefill_flops(LLAMA_70B, n, int(0.95 * n)) / prefill_flops(LLAMA_70B, n))


def _ttft_405b_s() -> float:
    """MFU fitted on the first of NVIDIA's two figures, the second computed with it."""
    return 1.6 * prefill_flops(LLAMA_405B, 122_880) / prefill_flops(LLAMA_405B, 32_768)


def _pegaflow_warm_s() -> float:
    hardware = replace(HARDWARE["h800-bf16"].with_gpus(1, mfu=0.55), dram=_link(25e9), fixed_s=_seconds(0.010))
    return ttft_seconds(LLAMA_8B, hardware, 10_000, dram_tokens=10_000)


@pytest.mark.parametrize(("n", "speed_up"), [(1_000, 3.0), (33_000, 15.0), (90_000, 26.0)])
def test_ttft_dram_hit_speeds_up_as_the_notes_computed(n: int, speed_up: float) -> None:
    """vLLM published 2x to 22x for this case; the notes' own figures leave the fixed part out of the cold time."""
    hardware = H100.with_gpus(1, mfu=0.55)
    cold_s = ttft_seconds(LLAMA_8B, hardware, n) - hardware.fixed_s.value
    assert cold_s / ttft_seconds(LLAMA_8B, hardware, n, dram_tokens=n) == pytest.approx(speed_up, rel=0.07)


@pytest.mark.parametrize(
    ("hardware", "joules"),
    [("h100-bf16", (0.24, 0.29, 0.49)), ("h200-fp8", (0.12, 0.14, 0.25)), ("b200-fp8", (0.084, 0.10, 0.17))],
)
def test_recompute_joules_per_token_equal_the_notes(hardware: str, joules: tuple[float, ...]) -> None:
    got = [recompute_joules(LLAMA_70B, HARDWARE[hardware], n) / n for n in (8_192, 32_768, 131_072)]
    assert got == pytest.approx(list(joules), rel=0.035)


def test_recompute_joules_do_not_depend_on_the_number_of_gpus() -> None:
    one, eight = (recompute_joules(LLAMA_70B, H100.with_gpus(count), 8192) for count in (1, 8))
    assert one == pytest.approx(eight)


def test_recompute_joules_scale_with_host_overhead_and_pue() -> None:
    heavy = replace(
        H100,
        host_overhead=Quantity(0.5, "ratio", Basis.DECLARED, "test"),
        pue=Quantity(1.2, "ratio", Basis.DECLARED, "test"),
    )
    assert recompute_joules(LLAMA_8B, heavy, 100) == pytest.approx(1.8 * recompute_joules(LLAMA_8B, H100, 100))
    assert fetch_joules(LLAMA_8B, heavy, 100) == pytest.approx(1.2 * fetch_joules(LLAMA_8B, H100, 100))


def test_fetch_joules_per_token_equal_the_notes() -> None:
    assert fetch_joules(LLAMA_70B, H100, dram_tokens=1) * 1e3 == pytest.approx(0.16, abs=0.005)
    assert fetch_joules(LLAMA_70B, H100, flash_tokens=1) * 1e3 == pytest.approx(0.75, abs=0.005)
    assert fetch_joules(LLAMA_70B, H100, 3, 4) == pytest.approx(
        fetch_joules(LLAMA_70B, H100, 3) + fetch_joules(LLAMA_70B, H100, 0, 4)
    )


def test_fetch_seconds_pay_the_latency_of_tiers_in_use_only() -> None:
    hardware = replace(H100, dram=_link(1e9, 0.5), flash=_link(5e8, 0.25))
    per_token_s = LLAMA_8B.kv_bytes_per_token / 1e9
    assert fetch_seconds(LLAMA_8B, hardware) == 0
    assert fetch_seconds(LLAMA_8B, hardware, 10) == pytest.approx(0.5 + 10 * per_token_s)
    assert fetch_seconds(LLAMA_8B, hardware, 10, 10) == pytest.approx(0.75 + 30 * per_token_s)


def test_ttft_overlap_takes_the_longer_part_else_the_sum() -> None:
    hardware = replace(H100, dram=_link(1e9), fixed_s=_seconds(0.1))
    load_s, compute_s = fetch_seconds(LLAMA_8B, hardware, 500), prefill_seconds(LLAMA_8B, hardware, 1000, 500)
    assert ttft_seconds(LLAMA_8B, hardware, 1000, dram_tokens=500, queue_s=2.0) == pytest.approx(
        2.1 + max(load_s, compute_s)
    )
    assert ttft_seconds(LLAMA_8B, hardware, 1000, dram_tokens=500, overlap=False) == pytest.approx(
        0.1 + load_s + compute_s
    )


def test_ttft_of_a_measured_fetch_adds_the_modelled_prefill_of_the_rest() -> None:
    got = ttft_from_fetch_seconds(LLAMA_8B, H100, 1000, hit_tokens=400, fetch_s=0.25)
    assert got == pytest.approx(0.25 + H100.fixed_s.value + prefill_seconds(LLAMA_8B, H100, 1000, 400))


def test_ttft_full_hit_still_computes_the_last_token() -> None:
    got = ttft_from_fetch_seconds(LLAMA_8B, H100, 1000, hit_tokens=1000, fetch_s=0.0)
    assert got == pytest.approx(H100.fixed_s.value + prefill_seconds(LLAMA_8B, H100, 1000, 999))
    assert ttft_from_fetch_seconds(LLAMA_8B, H100, 0, hit_tokens=0, fetch_s=0.0) == H100.fixed_s.value


def test_fetch_pays_above_the_break_even_bandwidth_only() -> None:
    least = _least_bandwidth_gb_per_s("h800-bf16") * 1e9
    eight = HARDWARE["h800-bf16"].with_gpus(8, mfu=1.0)
    for factor, pays in ((0.99, False), (1.01, True)):
        hardware = replace(eight, dram=_link(least * factor), flash=_link(least * factor))
        assert fetch_pays(LLAMA_70B, hardware, 8192, from_flash=False) is pays
        assert fetch_pays(LLAMA_70B, hardware, 8192, from_flash=True) is pays


def test_every_profile_parameter_names_its_unit_basis_and_source() -> None:
    def quantities(thing: HardwareProfile | TierLink) -> list[Quantity]:
        values = [getattr(thing, name) for name in thing.__slots__]
        return [value for value in values if isinstance(value, Quantity)]

    for profile in HARDWARE.values():
        found = [*quantities(profile), *quantities(profile.dram), *quantities(profile.flash)]
        assert len(found) == 12
        assert all(value.unit and value.source and value.basis in Basis for value in found)


def test_bad_parameters_are_refused() -> None:
    for value in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            _seconds(value)
    with pytest.raises(ValueError, match="bandwidth"):
        _link(0.0)
    with pytest.raises(ValueError, match="gpu_count"):
        H100.with_gpus(0)
    for mfu in (0.0, 1.1):
        with pytest.raises(ValueError, match="mfu"):
            H100.with_gpus(1, mfu=mfu)
    with pytest.raises(ValueError, match="pue"):
        replace(H100, pue=Quantity(0.9, "ratio", Basis.DECLARED, "test"))
    with pytest.raises(ValueError, match="peak"):
        replace(H100, peak_flops_per_gpu=Quantity(0, "FLOP/s", Basis.DECLARED, "test"))
    with pytest.raises(ValueError, match="kv_dtype_bytes"):
        LLAMA_8B.with_kv_dtype_bytes(3)


def test_with_gpus_marks_a_given_mfu_as_declared() -> None:
    assert H100.with_gpus(2).mfu.basis is Basis.ASSUMED
    assert H100.with_gpus(2, mfu=0.3).mfu.basis is Basis.DECLARED
