"""Canonical form, digest, schema, diff and resolution of the policy document."""

import json
from typing import Any

import pytest

from kvcache.policy import PolicyError, TierLimits, default_policy, diff, json_schema, parse_policy, resolve

GIB = 1 << 30


def _document(**tiers: Any) -> Any:
    return parse_policy({"version": "fabric/v1", "tiers": tiers})


def test_digest_default_policy_is_pinned() -> None:
    """Agents report digests: a change of this one means that every stored revision changed its name."""
    assert default_policy().digest() == "sha256:e5f162d58217c56d5c85b5cacd6ec296b908867380be0e9747b506e749d5c10d"


def test_digest_same_policy_spelled_differently_is_equal() -> None:
    spelled = [
        _document(dram={"capacity": {"share": 1}}),
        _document(dram={"eviction": "lru", "capacity": {"share": 1.0, "bytes": None}}, flash={}),
    ]
    assert len({document.digest() for document in spelled}) == 1
    assert _document(dram={"capacity": {"share": -0.0}}).digest() == _document(dram={"capacity": {"share": 0}}).digest()


def test_canonical_parses_back_to_the_same_document() -> None:
    document = _document(dram={"capacity": {"bytes": 5}, "ttl_s": 2.5}, flash={"keep_on_promote": False})
    again = parse_policy(json.loads(document.canonical()))
    assert again == document
    assert again.canonical() == document.canonical()
    assert b" " not in document.canonical()


def test_diff_names_each_changed_field_with_both_values() -> None:
    old, new = default_policy(), _document(dram={"capacity": {"bytes": 7}, "ttl_s": 60})
    assert [tuple(change) for change in diff(old, new)] == [
        ("tiers.dram.capacity.bytes", None, 7),
        ("tiers.dram.capacity.share", 0.25, None),
        ("tiers.dram.ttl_s", None, 60.0),
    ]
    assert diff(old, old) == []


def test_json_schema_every_field_has_default_unit_help_and_range() -> None:
    schema = json_schema()
    parts = {"PolicyDocument": schema, **schema["$defs"]}
    assert set(parts) == {"PolicyDocument", "Tiers", "DramPolicy", "FlashPolicy", "Capacity"}
    for part in parts.values():
        assert part["additionalProperties"] is False
        for name, field in part["properties"].items():
            assert {"default", "unit", "description"} <= set(field), name
            forms = [form for form in field.get("anyOf", [field]) if form.get("type") in ("number", "integer")]
            for form in forms:
                assert {"minimum", "exclusiveMinimum"} & set(form), name
                assert "maximum" in form, name


def test_resolve_shares_become_bytes_of_the_limits() -> None:
    document = _document(dram={"capacity": {"share": 0.25}}, flash={"high_watermark": 0.9, "low_watermark": 0.5})
    resolved = resolve(document, TierLimits(dram_bytes=10 * GIB, flash_bytes=1000))
    assert resolved.dram.capacity_bytes == resolved.dram.high_bytes == resolved.dram.low_bytes == 10 * GIB // 4
    assert (resolved.flash.capacity_bytes, resolved.flash.high_bytes, resolved.flash.low_bytes) == (500, 450, 250)
    assert (resolved.promote_after_hits, resolved.keep_on_promote) == (1, True)


def test_resolve_full_share_of_a_limit_beyond_float_precision_is_exact() -> None:
    limit = (1 << 60) + 1
    resolved = resolve(_document(dram={"capacity": {"share": 1}}), TierLimits(dram_bytes=limit, flash_bytes=0))
    assert resolved.dram.capacity_bytes == limit


def test_resolve_bytes_above_the_limit_names_each_field_and_limit() -> None:
    document = _document(dram={"capacity": {"bytes": 11}}, flash={"capacity": {"bytes": 21}})
    with pytest.raises(PolicyError) as caught:
        resolve(document, TierLimits(dram_bytes=10, flash_bytes=20))
    assert [problem.field for problem in caught.value.problems] == [
        "tiers.dram.capacity.bytes",
        "tiers.flash.capacity.bytes",
    ]
    assert "at most 10 bytes" in caught.value.problems[0].remedy


def test_resolve_bytes_equal_to_the_limit_and_zero_are_allowed() -> None:
    document = _document(dram={"capacity": {"bytes": 10}}, flash={"capacity": {"bytes": 0}})
    resolved = resolve(document, TierLimits(dram_bytes=10, flash_bytes=0))
    assert (resolved.dram.capacity_bytes, resolved.flash.capacity_bytes) == (10, 0)


def test_limits_negative_are_refused() -> None:
    with pytest.raises(ValueError, match="flash_bytes"):
        TierLimits(dram_bytes=0, flash_bytes=-1)


def test_document_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        default_policy().tiers.dram.ttl_s = 5.0  # type: ignore[misc]
