"""What a policy asks of an agent against what the agent declares it can enforce. Pure: no Django."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agent.protocol import Capabilities
from kvcache.policy import FieldProblem, PolicyDocument, PolicyError, TierLimits, TierPolicy, resolve


@dataclass(frozen=True, slots=True)
class AgentProblem:
    """One field (the knob) that one agent cannot enforce: which agent, its engine, why, and what would be right."""

    agent_id: str
    agent: str
    engine: str
    field: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"agent {self.agent} (engine {self.engine}): {self.problem}"


def capabilities_of(declared: Mapping[str, Any]) -> Capabilities | None:
    """Return what an agent declared, or None where it declared nothing that this version understands."""
    try:
        return Capabilities.model_validate(declared)
    except ValidationError:
        return None


def problems_for_capabilities(document: PolicyDocument, capabilities: Capabilities) -> list[FieldProblem]:
    """Return every field of `document` that an agent with `capabilities` would refuse, by the rules which the agent
    itself applies.

    A share of a tier that an agent lacks is a share of nothing and asks for nothing, as a size of 0 bytes does.
    """
    limits = TierLimits(
        dram_bytes=capabilities.dram_limit_bytes if "dram" in capabilities.tiers else 0,
        flash_bytes=capabilities.flash_limit_bytes if "flash" in capabilities.tiers else 0,
    )
    problems = []
    for name, tier, limit_bytes in (
        ("dram", document.tiers.dram, limits.dram_bytes),
        ("flash", document.tiers.flash, limits.flash_bytes),
    ):
        if tier.eviction not in capabilities.evictions and _is_used(tier, limit_bytes):
            known = ", ".join(capabilities.evictions) or "nothing"
            problems.append(
                FieldProblem(f"tiers.{name}.eviction", f"it cannot evict by {tier.eviction}", f"it can do {known}")
            )
    try:
        resolve(document, limits)
    except PolicyError as error:
        problems += error.problems
    return problems


def _is_used(tier: TierPolicy, limit_bytes: int) -> bool:
    size = tier.capacity.bytes if tier.capacity.bytes is not None else (tier.capacity.share or 0.0) * limit_bytes
    return size > 0
