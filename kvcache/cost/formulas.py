"""Time and energy to recompute a prefix or to fetch it (reference notes, section 7). Everything here is modelled."""

from kvcache.cost.hardware import GB, HardwareProfile
from kvcache.cost.models import ModelShape


def prefill_flops(model: ModelShape, n: int, p: int = 0) -> float:
    """Return the FLOPs to prefill tokens p..n of a prompt of n tokens: F = 2P(n-p) + l h (d_qk + d_v) (n^2 - p^2).

    The second term is causal attention; with d_qk = d_v it is the usual 2 l d (n^2 - p^2) with d = heads x head_dim.

    Raises:
        ValueError: not 0 <= p <= n.
    """
    if not 0 <= p <= n:
        raise ValueError(f"a prefix of {p} tokens in a prompt of {n}: give 0 <= p <= n")
    attention = model.layers * model.heads * (model.qk_head_dim + model.v_head_dim)
    return 2.0 * model.active_parameters * (n - p) + float(attention) * (n * n - p * p)


def prefill_seconds(model: ModelShape, hardware: HardwareProfile, n: int, p: int = 0) -> float:
    """Return the seconds to prefill tokens p..n on all GPUs of the profile: F / (N G MFU)."""
    return prefill_flops(model, n, p) / hardware.effective_flops


def fetch_seconds(model: ModelShape, hardware: HardwareProfile, dram_tokens: int = 0, flash_tokens: int = 0) -> float:
    """Return the seconds to load the KV of that many tokens: per tier in use, latency + tokens x bytes / bandwidth."""
    seconds = 0.0
    for tokens, link in ((dram_tokens, hardware.dram), (flash_tokens, hardware.flash)):
        if tokens > 0:
            size_bytes = tokens * model.kv_bytes_per_token
            seconds += link.latency_s.value + size_bytes / link.bandwidth_bytes_per_s.value
    return seconds


def ttft_seconds(
    model: ModelShape,
    hardware: HardwareProfile,
    n: int,
    *,
    dram_tokens: int = 0,
    flash_tokens: int = 0,
    queue_s: float = 0.0,
    overlap: bool = True,
) -> float:
    """Return the modelled time to first token of a prompt of n tokens, in seconds.

    queue + fixed + max(prefill of the rest, load), the maximum because layers load while earlier ones compute; their
    sum where `overlap` is False. A fully cached prompt still computes its last token.
    """
    load_s = fetch_seconds(model, hardware, dram_tokens, flash_tokens)
    return ttft_from_fetch_seconds(
        model, hardware, n, hit_tokens=dram_tokens + flash_tokens, fetch_s=load_s, queue_s=queue_s, overlap=overlap
    )


def ttft_from_fetch_seconds(
    model: ModelShape,
    hardware: HardwareProfile,
    n: int,
    *,
    hit_tokens: int,
    fetch_s: float,
    queue_s: float = 0.0,
    overlap: bool = False,
) -> float:
    """Return the time to first token where the fetch was measured and only the prefill of the rest is modelled.

    `fetch_s` is the measured time to load `hit_tokens`; without `overlap` it adds to the prefill, as for a client
    that loads first and computes then.
    """
    compute_s = prefill_seconds(model, hardware, n, min(hit_tokens, max(n - 1, 0)))
    busy_s = max(compute_s, fetch_s) if overlap else compute_s + fetch_s
    return queue_s + hardware.fixed_s.value + busy_s


def fetch_pays(model: ModelShape, hardware: HardwareProfile, p: int, *, from_flash: bool) -> bool:
    """Tell whether loading a prefix of p tokens is faster than prefilling it: p b / B + latency < F(p, 0) / (N G MFU).

    F(n,0) - F(n,p) equals F(p,0): what a prefix saves does not depend on what follows it.
    """
    tokens = {"flash_tokens": p} if from_flash else {"dram_tokens": p}
    return fetch_seconds(model, hardware, **tokens) < prefill_seconds(model, hardware, p)


def recompute_joules(model: ModelShape, hardware: HardwareProfile, n: int, p: int = 0) -> float:
    """Return the energy to prefill tokens p..n: W N F / (N G MFU), with host overhead and PUE."""
    gpu_w = hardware.gpu_count * hardware.gpu_power_w.value
    return gpu_w * (1 + hardware.host_overhead.value) * hardware.pue.value * prefill_seconds(model, hardware, n, p)


def fetch_joules(model: ModelShape, hardware: HardwareProfile, dram_tokens: int = 0, flash_tokens: int = 0) -> float:
    """Return the energy to load the KV of that many tokens: bytes x J per byte of each path, with PUE."""
    joules = 0.0
    for tokens, link in ((dram_tokens, hardware.dram), (flash_tokens, hardware.flash)):
        joules += tokens * model.kv_bytes_per_token / GB * link.energy_j_per_gb.value
    return joules * hardware.pue.value
