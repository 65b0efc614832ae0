"""Policies as YAML or JSON text: plain values only, bounded, nothing constructed."""

import pytest

from kvcache.policy import MAX_TEXT_BYTES, PolicyError, default_policy, load_policy_text

YAML = """
version: fabric/v1
tiers:
  dram:
    capacity: {share: 0.5}   # half
    ttl_s: 1e2
  flash: {capacity: {bytes: 4096}, keep_on_promote: false, ttl_s: null}
"""


def _refused(text: str | bytes) -> str:
    with pytest.raises(PolicyError) as caught:
        load_policy_text(text)
    return str(caught.value)


def test_load_yaml_and_json_of_one_policy_have_one_digest() -> None:
    document = load_policy_text(YAML)
    assert document.tiers.dram.ttl_s == 100.0
    assert document.tiers.flash.capacity.bytes == 4096
    assert load_policy_text(document.canonical()).digest() == document.digest()
    assert load_policy_text(b"\n  " + document.canonical()).digest() == document.digest()


def test_load_minimal_text_is_the_default_policy() -> None:
    assert load_policy_text("version: fabric/v1") == default_policy()


@pytest.mark.parametrize("text", ["version: &v fabric/v1", "a: &x {b: 1}\nc: *x", "a: *nowhere", "&a [*a]"])
def test_load_yaml_with_anchor_or_alias_is_refused(text: str) -> None:
    assert "anchors and aliases" in _refused(text)


def test_load_yaml_merge_key_is_refused() -> None:
    assert "plain word" in _refused("<<: {version: fabric/v1}")


def test_load_yaml_tag_constructs_nothing() -> None:
    assert "constructor" in _refused("version: !!python/object/apply:os.getcwd []")


@pytest.mark.parametrize("text", ["version: fabric/v1\nversion: fabric/v1", '{"version": 1, "version": 2}'])
def test_load_field_given_twice_is_refused(text: str) -> None:
    assert "'version'" in _refused(text)
    assert "twice" in _refused(text)


@pytest.mark.parametrize("value", ["010", "1:30", "0x10", "1_000", "on", "2026-01-01", "64GiB", ".inf", ".nan", "'5'"])
def test_load_yaml_value_that_only_yaml_takes_for_a_number_is_refused(value: str) -> None:
    assert "tiers.dram.capacity.bytes" in _refused(
        f"version: fabric/v1\ntiers: {{dram: {{capacity: {{bytes: {value}}}}}}}"
    )


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_load_json_number_that_is_not_finite_is_refused(value: str) -> None:
    assert "tiers.dram.ttl_s" in _refused('{"version":"fabric/v1","tiers":{"dram":{"ttl_s":' + value + "}}}")


@pytest.mark.parametrize("text", ["[" * 60_000, '{"a":' * 9_000, "{a: " * 9_000])
def test_load_text_that_nests_too_deeply_is_refused(text: str) -> None:
    assert _refused(text)


@pytest.mark.parametrize("text", ['{"a": ' + "9" * 5000 + "}", "a: " + "9" * 5000])
def test_load_number_of_thousands_of_digits_is_refused(text: str) -> None:
    assert len(_refused(text)) < 200


@pytest.mark.parametrize("text", ["", "   ", "- 1", "5", "null", "[]", "{"])
def test_load_text_without_a_mapping_is_refused(text: str) -> None:
    assert _refused(text)


def test_load_broken_text_names_line_and_column() -> None:
    assert "line 2, column" in _refused('{"version": "fabric/v1",\n oops}')
    assert "line 2, column" in _refused("version: fabric/v1\n bad: [}")


def test_load_text_too_long_is_refused_before_parsing() -> None:
    assert str(MAX_TEXT_BYTES) in _refused("#" * (MAX_TEXT_BYTES + 1))
    assert str(MAX_TEXT_BYTES) in _refused("é" * (MAX_TEXT_BYTES // 2 + 1))
    assert load_policy_text("version: fabric/v1\n#" + "x" * (MAX_TEXT_BYTES - 20)) == default_policy()


def test_load_text_that_is_not_utf8_is_refused() -> None:
    assert "UTF-8" in _refused(b"version: \xff")
    assert _refused("version: \ud800")
