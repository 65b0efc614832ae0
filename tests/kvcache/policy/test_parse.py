"""Policy documents from untrusted input: what is accepted, and what exactly is said about what is not."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from kvcache.policy import PolicyError, default_policy, parse_policy

HUGE = pytest.param(10**5000, id="huge")
"""More digits than Python turns into text."""


def _dram(**fields: Any) -> dict[str, Any]:
    return {"version": "fabric/v1", "tiers": {"dram": fields}}


def _flash(**fields: Any) -> dict[str, Any]:
    return {"version": "fabric/v1", "tiers": {"flash": fields}}


def _problems(mapping: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    with pytest.raises(PolicyError) as caught:
        parse_policy(mapping)
    return {problem.field: (problem.problem, problem.remedy) for problem in caught.value.problems}


def test_parse_version_alone_is_the_default_policy() -> None:
    assert parse_policy({"version": "fabric/v1"}) == default_policy()


def test_parse_full_document_of_the_contract() -> None:
    document = parse_policy(
        {
            "version": "fabric/v1",
            "tiers": {
                "dram": {"capacity": {"share": 0.25}, "eviction": "lru", "high_watermark": 1.0, "low_watermark": 1.0},
                "flash": {
                    "capacity": {"bytes": 1 << 40},
                    "eviction": "fifo",
                    "ttl_s": 300,
                    "promote_after_hits": 2,
                    "keep_on_promote": False,
                },
            },
        }
    )
    flash = document.tiers.flash
    assert (flash.capacity.bytes, flash.capacity.share, flash.eviction) == (1 << 40, None, "fifo")
    assert (flash.ttl_s, flash.promote_after_hits, flash.keep_on_promote) == (300.0, 2, False)


def test_parse_unknown_field_names_the_nearest_known_one() -> None:
    problems = _problems(_dram(capcity={"share": 1}))
    assert problems == {"tiers.dram.capcity": ("there is no such field", "did you mean capacity?")}
    assert _problems(_dram(capacity={"shares": 1}))["tiers.dram.capacity.shares"][1] == "did you mean share?"
    assert _problems({"version": "fabric/v1", "tier": {}})["tier"][1] == "did you mean tiers?"


def test_parse_unknown_field_without_a_near_one_lists_the_known() -> None:
    assert "keep_on_promote" in _problems(_flash(zzz=1))["tiers.flash.zzz"][1]


def test_parse_promotion_in_dram_is_no_such_field() -> None:
    assert "tiers.dram.promote_after_hits" in _problems(_dram(promote_after_hits=2))


def test_parse_newer_version_is_refused_by_name_whatever_else_is_in_it() -> None:
    problems = _problems({"version": "fabric/v2", "pins": []})
    assert list(problems) == ["version"]
    assert "fabric/v2" in problems["version"][0]


@pytest.mark.parametrize("version", [None, 1, "", "v1", ["fabric/v1"], "x" * 10_000])
def test_parse_version_that_is_none_of_ours_is_refused(version: object) -> None:
    problem, remedy = _problems({"version": version})["version"]
    assert len(problem) < 200
    assert "fabric/v1" in remedy


def test_parse_missing_version_says_what_to_add() -> None:
    assert _problems({})["version"] == ("the version is missing", "add version: fabric/v1")


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, True, "0.5", None, [], 1.5, -0.1, 10**400, -(10**400), 0, 0.0]
)
def test_parse_watermark_that_is_no_ratio_above_zero_is_refused(value: object) -> None:
    assert "tiers.dram.high_watermark" in _problems(_dram(high_watermark=value))


@pytest.mark.parametrize("value", [True, 1.0, "1024", -1, 10**16, HUGE, math.nan, (1 << 50) + 1])
def test_parse_capacity_that_is_no_number_of_bytes_is_refused(value: object) -> None:
    problem, remedy = _problems(_dram(capacity={"bytes": value}))["tiers.dram.capacity.bytes"]
    assert problem
    assert remedy
    assert len(problem + remedy) < 200


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "5m", 1e12])
def test_parse_ttl_that_is_no_time_is_refused(value: object) -> None:
    assert "tiers.flash.ttl_s" in _problems(_flash(ttl_s=value))


@pytest.mark.parametrize("value", [0, 1001, 1.0, True, "1"])
def test_parse_promotion_count_out_of_range_is_refused(value: object) -> None:
    assert "tiers.flash.promote_after_hits" in _problems(_flash(promote_after_hits=value))


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_parse_switch_that_is_not_true_or_false_is_refused(value: object) -> None:
    assert _problems(_flash(keep_on_promote=value))["tiers.flash.keep_on_promote"][1] == "write true or false"


@pytest.mark.parametrize("capacity", [{}, {"share": 0.5, "bytes": 1}, {"share": None, "bytes": None}])
def test_parse_capacity_of_not_exactly_one_kind_is_refused(capacity: dict[str, Any]) -> None:
    assert _problems(_dram(capacity=capacity)) == {
        "tiers.dram.capacity": ("a capacity is either a share or bytes", "give exactly one of share and bytes")
    }


def test_parse_low_watermark_above_high_names_the_low_one() -> None:
    assert list(_problems(_dram(high_watermark=0.5, low_watermark=0.9))) == ["tiers.dram.low_watermark"]


def test_parse_high_watermark_alone_below_the_default_low_one_is_refused_with_reason() -> None:
    assert _problems(_dram(high_watermark=0.9))["tiers.dram.low_watermark"][0] == "1.0 is above the high watermark 0.9"


def test_parse_unknown_eviction_lists_the_choices() -> None:
    assert "'lru' or 'fifo'" in _problems(_dram(eviction="sieve"))["tiers.dram.eviction"][1]


@pytest.mark.parametrize("part", [None, [], 3, "lru"])
def test_parse_part_that_is_no_mapping_is_refused(part: object) -> None:
    assert "tiers.dram" in _problems({"version": "fabric/v1", "tiers": {"dram": part}})
    assert "tiers" in _problems({"version": "fabric/v1", "tiers": part})
    with pytest.raises(PolicyError, match="mapping"):
        parse_policy(part)  # type: ignore[arg-type]


def test_parse_lists_every_problem_of_a_document() -> None:
    bad = {"version": "fabric/v1", "x": 1, "tiers": {"dram": {"eviction": 1}, "flash": {"ttl_s": 0}}}
    assert set(_problems(bad)) == {"x", "tiers.dram.eviction", "tiers.flash.ttl_s"}


def test_parse_thousands_of_unknown_fields_answers_with_a_bounded_list() -> None:
    problems = _problems({"version": "fabric/v1", **{f"field{number}" * 100: 1 for number in range(5000)}})
    assert len(problems) == 51
    assert sum(len(field) for field in problems) < 51 * 70


def test_parse_field_name_that_is_no_text_is_refused() -> None:
    assert _problems({"version": "fabric/v1", 3: 4})["3"][0] == "a field name is not a text"  # type: ignore[dict-item]
