"""Owns the cost models: what a token's KV takes in bytes, what its prefill or its fetch takes in time and energy.

Every figure made here is modelled; every parameter is a field with its unit and its source.
"""

from kvcache.cost.formulas import (
    fetch_joules,
    fetch_pays,
    fetch_seconds,
    prefill_flops,
    prefill_seconds,
    recompute_joules,
    ttft_from_fetch_seconds,
    ttft_seconds,
)
from kvcache.cost.hardware import HARDWARE, HardwareProfile, TierLink
from kvcache.cost.models import MODELS, KvLayout, ModelShape
from kvcache.cost.quantity import Basis, Quantity

__all__ = [
    "HARDWARE",
    "MODELS",
    "Basis",
    "HardwareProfile",
    "KvLayout",
    "ModelShape",
    "Quantity",
    "TierLink",
    "fetch_joules",
    "fetch_pays",
    "fetch_seconds",
    "prefill_flops",
    "prefill_seconds",
    "recompute_joules",
    "ttft_from_fetch_seconds",
    "ttft_seconds",
]
