"""The hardware on which a cost is modelled: GPUs that recompute, links that fetch."""

from dataclasses import dataclass, field, replace

from kvcache.cost.quantity import Basis, Quantity

GB = 1e9


@dataclass(frozen=True, slots=True)
class TierLink:
    """How a tier's blocks reach the GPU.

    `latency_s` per fetch, `bandwidth_bytes_per_s` one way, `energy_j_per_gb` of everything on the path
    (W per GB/s is J per GB).
    """

    latency_s: Quantity
    bandwidth_bytes_per_s: Quantity
    energy_j_per_gb: Quantity

    def __post_init__(self) -> None:
        if not self.bandwidth_bytes_per_s.value:
            raise ValueError("the bandwidth of a link is 0; give bytes per second above 0")


DRAM_LINK = TierLink(
    latency_s=Quantity(1e-4, "s", Basis.ASSUMED, "one transfer launch per fetch"),
    bandwidth_bytes_per_s=Quantity(50 * GB, "byte/s", Basis.PUBLISHED, "PCIe Gen5 x16 one way, vLLM blog"),
    energy_j_per_gb=Quantity(0.5, "J/GB", Basis.ASSUMED, "DRAM read and PCIe transfer"),
)
FLASH_LINK = TierLink(
    latency_s=Quantity(2e-4, "s", Basis.ASSUMED, "NVMe read plus one transfer launch per fetch"),
    bandwidth_bytes_per_s=Quantity(14 * GB, "byte/s", Basis.VENDOR, "one PCIe Gen5 SSD, sequential read"),
    energy_j_per_gb=Quantity(2.29, "J/GB", Basis.VENDOR, "SSD read 560 MB/s per watt (1.79 J/GB) plus the DRAM path"),
)


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """One serving deployment. MFU belongs to a deployment, not to a GPU: declare what yours reaches."""

    name: str
    gpu_count: int
    peak_flops_per_gpu: Quantity
    mfu: Quantity
    gpu_power_w: Quantity
    dram: TierLink = DRAM_LINK
    flash: TierLink = FLASH_LINK
    fixed_s: Quantity = field(
        default=Quantity(0.008, "s", Basis.ASSUMED, "scheduling and launch per request; 8 ms fits vLLM's figures")
    )
    host_overhead: Quantity = field(
        default=Quantity(0.0, "ratio", Basis.ASSUMED, "watts of the host per watt of its GPUs; 0 counts GPUs only")
    )
    pue: Quantity = field(default=Quantity(1.0, "ratio", Basis.ASSUMED, "power of the site per power of its machines"))

    def __post_init__(self) -> None:
        if self.gpu_count < 1:
            raise ValueError(f"gpu_count is {self.gpu_count}; give at least 1")
        if not 0 < self.mfu.value <= 1:
            raise ValueError(f"mfu is {self.mfu.value}; give a ratio above 0 and at most 1")
        if not self.peak_flops_per_gpu.value:
            raise ValueError("peak_flops_per_gpu is 0; give FLOP/s above 0")
        if self.pue.value < 1:
            raise ValueError(f"pue is {self.pue.value}; give at least 1")

    @property
    def effective_flops(self) -> float:
        """FLOP/s that prefill reaches on all GPUs together."""
        return self.gpu_count * self.peak_flops_per_gpu.value * self.mfu.value

    def with_gpus(self, gpu_count: int, mfu: float | None = None) -> "HardwareProfile":
        """Return this profile with another number of GPUs, and with a declared MFU if one is given."""
        declared = self.mfu if mfu is None else Quantity(mfu, "ratio", Basis.DECLARED, "given by the operator")
        return replace(self, gpu_count=gpu_count, mfu=declared)


def _gpu(name: str, peak_tflops: float, precision: str, mfu: float, watts: float) -> HardwareProfile:
    return HardwareProfile(
        name=name,
        gpu_count=1,
        peak_flops_per_gpu=Quantity(
            peak_tflops * 1e12, "FLOP/s", Basis.VENDOR, f"data sheet, dense {precision} tensor throughput"
        ),
        mfu=Quantity(mfu, "ratio", Basis.ASSUMED, "typical of tuned prefill; declare your own"),
        gpu_power_w=Quantity(watts, "W", Basis.VENDOR, "data sheet, board power limit"),
    )


HARDWARE: dict[str, HardwareProfile] = {
    profile.name: profile
    for profile in (
        _gpu("a800-bf16", 312, "BF16", 0.45, 400),
        _gpu("h800-bf16", 989, "BF16", 0.55, 700),
        _gpu("h100-bf16", 989, "BF16", 0.45, 700),
        _gpu("h200-fp8", 1979, "FP8", 0.45, 700),
        _gpu("b200-fp8", 4500, "FP8", 0.40, 1000),
    )
}
"""Single-GPU profiles by name; `with_gpus` makes a deployment of them."""
