"""TTFT and energy of one replayed request: the fetch is measured, the prefill is modelled (kvcache.cost)."""

from dataclasses import dataclass

from kvcache.cost import (
    HARDWARE,
    MODELS,
    HardwareProfile,
    ModelShape,
    fetch_joules,
    recompute_joules,
    ttft_from_fetch_seconds,
)


@dataclass(frozen=True, slots=True)
class RequestCost:
    """What a request took, in seconds and joules. Everything but the fetch inside `ttft_s` is modelled."""

    ttft_s: float
    prefill_joules: float
    fetch_dram_joules: float
    fetch_flash_joules: float
    saved_joules: float


@dataclass(frozen=True, slots=True)
class CostModel:
    """The model and the GPUs that the replay stands for."""

    model: ModelShape
    hardware: HardwareProfile

    def cost(self, input_tokens: int, hit_tokens: int, flash_share: float, fetch_s: float) -> RequestCost:
        """Return the cost of a prompt of which the first `hit_tokens` were fetched in `fetch_s` seconds.

        `flash_share` (0..1) of the fetched tokens came from flash. The energy saved is that of the prefill that was
        not done; the energy of the fetch is not taken off, it is in the other figures.
        """
        flash_tokens = round(hit_tokens * flash_share)
        everything = recompute_joules(self.model, self.hardware, input_tokens)
        rest = recompute_joules(self.model, self.hardware, input_tokens, hit_tokens)
        return RequestCost(
            ttft_s=ttft_from_fetch_seconds(
                self.model, self.hardware, input_tokens, hit_tokens=hit_tokens, fetch_s=fetch_s
            ),
            prefill_joules=rest,
            fetch_dram_joules=fetch_joules(self.model, self.hardware, dram_tokens=hit_tokens - flash_tokens),
            fetch_flash_joules=fetch_joules(self.model, self.hardware, flash_tokens=flash_tokens),
            saved_joules=everything - rest,
        )


def cost_model(model: str, hardware: str, gpus: int) -> CostModel:
    """Return the cost model of `gpus` GPUs of a kind that serve a model. Raises `KeyError` for an unknown name."""
    return CostModel(MODELS[model], HARDWARE[hardware].with_gpus(gpus))
