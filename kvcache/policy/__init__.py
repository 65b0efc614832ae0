"""Owns the policy document: fields and ranges, parsing with clear errors, canonical form, digest, diff, bytes."""

from kvcache.policy.compare import FieldChange, diff
from kvcache.policy.document import (
    VERSION,
    Capacity,
    DramPolicy,
    EvictionName,
    FlashPolicy,
    PolicyDocument,
    TierPolicy,
    Tiers,
    default_policy,
    json_schema,
)
from kvcache.policy.parse import parse_policy
from kvcache.policy.problems import FieldProblem, PolicyError
from kvcache.policy.resolve import ResolvedPolicy, ResolvedTier, TierLimits, resolve
from kvcache.policy.text import MAX_TEXT_BYTES, load_policy_text

__all__ = [
    "MAX_TEXT_BYTES",
    "VERSION",
    "Capacity",
    "DramPolicy",
    "EvictionName",
    "FieldChange",
    "FieldProblem",
    "FlashPolicy",
    "PolicyDocument",
    "PolicyError",
    "ResolvedPolicy",
    "ResolvedTier",
    "TierLimits",
    "TierPolicy",
    "Tiers",
    "default_policy",
    "diff",
    "json_schema",
    "load_policy_text",
    "parse_policy",
    "resolve",
]
