"""The model catalogue: the shapes on which bytes and FLOPs depend.

Shapes are from the models' published configurations; parameter counts are rounded as their makers state them, and
count only the parameters active per token where a model is a mixture of experts.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class KvLayout(StrEnum):
    """How a model lays out its KV cache: keys and values per head (MHA, GQA), or one latent vector (MLA)."""

    PER_HEAD = "per_head"
    LATENT = "latent"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One model. `qk_head_dim` and `v_head_dim` differ only where queries carry a rotary part of their own (MLA)."""

    name: str
    active_parameters: float
    layers: int
    heads: int
    qk_head_dim: int
    v_head_dim: int
    kv_layout: KvLayout
    kv_heads: int = 0
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    kv_dtype_bytes: int = 2

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache per token over all layers.

        Per head: 2 (K and V) x layers x kv_heads x head_dim x bytes; MLA: layers x (kv_lora_rank + rope) x bytes.
        """
        if self.kv_layout is KvLayout.LATENT:
            return self.layers * (self.kv_lora_rank + self.qk_rope_head_dim) * self.kv_dtype_bytes
        return self.layers * self.kv_heads * (self.qk_head_dim + self.v_head_dim) * self.kv_dtype_bytes

    def with_kv_dtype_bytes(self, kv_dtype_bytes: int) -> "ModelShape":
        """Return the same model with its KV cache kept in another precision (1 for FP8, 2 for BF16)."""
        if kv_dtype_bytes not in (1, 2, 4):
            raise ValueError(f"kv_dtype_bytes is {kv_dtype_bytes}; give 1 (FP8), 2 (BF16) or 4 (FP32)")
        return replace(self, kv_dtype_bytes=kv_dtype_bytes)


def _grouped_query(name: str, parameters: float, layers: int, heads: int, kv_heads: int) -> ModelShape:
    return ModelShape(name, parameters, layers, heads, 128, 128, KvLayout.PER_HEAD, kv_heads=kv_heads)


MODELS: dict[str, ModelShape] = {
    model.name: model
    for model in (
        _grouped_query("llama-3.1-8b", 8.03e9, 32, 32, 8),
        _grouped_query("llama-3.1-70b", 70.6e9, 80, 64, 8),
        _grouped_query("llama-3.1-405b", 405.8e9, 126, 128, 8),
        _grouped_query("qwen3-32b", 32.8e9, 64, 64, 8),
        _grouped_query("qwen3-235b-a22b", 22e9, 94, 64, 4),
        ModelShape("deepseek-v3", 37e9, 61, 128, 192, 128, KvLayout.LATENT, kv_lora_rank=512, qk_rope_head_dim=64),
    )
}
"""The models whose KV size the fabric knows, by name."""
