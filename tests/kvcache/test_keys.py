"""Block keys: chained, apart by namespace, printable and short; LMCache's forms as its programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcache.keys import (
    MAX_KEY_BYTES,
    LmcacheForm,
    LmcacheKind,
    Namespace,
    block_key,
    chained_block_hashes,
    parse_lmcache_key,
    trace_block_key,
)

HASH = "4b8b00ff11223344"


def test_chained_hashes_share_exactly_the_common_leading_blocks() -> None:
    space = Namespace("llama")
    first = list(chained_block_hashes(space, [1, 2, 3, 4, 5, 6], 2))
    second = list(chained_block_hashes(space, [1, 2, 9, 4, 5, 6], 2))
    assert first[0] == second[0]
    assert set(first[1:]).isdisjoint(second[1:])


def test_chained_hashes_skip_a_partial_last_block() -> None:
    assert len(list(chained_block_hashes(Namespace("m"), range(7), 3))) == 2
    assert list(chained_block_hashes(Namespace("m"), [1, 2], 3)) == []


@pytest.mark.parametrize(
    "other", [Namespace("llama2"), Namespace("llama", "t"), Namespace("llam", "a"), Namespace("llama", secret=b"s")]
)
def test_other_namespace_shares_no_key(other: Namespace) -> None:
    space, tokens = Namespace("llama"), [1, 2, 3, 4]
    keys = {block_key(space, found) for found in chained_block_hashes(space, tokens, 2)}
    assert keys.isdisjoint({block_key(other, found) for found in chained_block_hashes(other, tokens, 2)})
    assert keys.isdisjoint({block_key(space, found) for found in chained_block_hashes(other, tokens, 2)})


@given(model=st.text(max_size=300), tenant=st.text(max_size=300), block_id=st.integers(0, (1 << 63) - 1))
def test_keys_are_short_and_printable_whatever_the_names(model: str, tenant: str, block_id: int) -> None:
    model, tenant = (text.encode("utf-8", "ignore").decode() for text in (model, tenant))
    for key in (trace_block_key(model, block_id), block_key(Namespace(model, tenant), b"\0" * 32)):
        assert len(key) <= MAX_KEY_BYTES
        assert key.decode("ascii").isprintable()
        assert b" " not in key


def test_trace_block_key_is_pinned() -> None:
    """Agents keep blocks over restarts of a replay: the key of a block must not change."""
    expected = b"kvf1:10a832fb77e30a0c58bec1526d92fbc2:832ee8e3b9ca30313433da20e8abc21b535217934e844d3ff41e013d5f2ec5b3"
    assert trace_block_key("m", 5) == expected
    assert len({trace_block_key(model, number) for model in ("m", "n") for number in range(100)}) == 200


def test_bad_arguments_say_what_is_right() -> None:
    with pytest.raises(ValueError, match="block_tokens"):
        list(chained_block_hashes(Namespace("m"), [1], 0))
    for token in (-1, 1 << 32):
        with pytest.raises(ValueError, match=r"tokens 0\.\.0"):
            list(chained_block_hashes(Namespace("m"), [token], 1))
    with pytest.raises(ValueError, match="give 32"):
        block_key(Namespace("m"), b"short")
    for number in (-1, 1 << 63):
        with pytest.raises(ValueError, match="2\\*\\*63-1"):
            trace_block_key("m", number)


def test_lmcache_in_process_pair_shares_its_name() -> None:
    base = f"meta/llama-3@1@0@{HASH}@bfloat16"
    payload, metadata = (parse_lmcache_key(f"{base}{kind}".encode()) for kind in ("kv_bytes", "metadata"))
    assert payload is not None
    assert metadata is not None
    assert (payload.form, payload.model, payload.chunk_hash) == (LmcacheForm.IN_PROCESS, "meta/llama-3", HASH)
    assert (payload.kind, metadata.kind) == (LmcacheKind.KV_BYTES, LmcacheKind.METADATA)
    assert payload.pair == metadata.pair == base.encode()
    assert (payload.dtype, payload.rank, payload.salt, payload.position) == ("bfloat16", "1@0", None, None)


def test_lmcache_in_process_with_tags_and_without_a_kind() -> None:
    tagged = parse_lmcache_key(f"m@4@3@{HASH}@half@lora%x1@user%bobmetadata".encode())
    assert tagged is not None
    assert (tagged.dtype, tagged.kind) == ("half", LmcacheKind.METADATA)
    assert tagged.pair.endswith(b"@user%bob")
    bare = parse_lmcache_key(f"m@4@3@{HASH}@half".encode())
    assert bare is not None
    assert bare.kind is LmcacheKind.CHUNK


def test_lmcache_server_key_as_seen_live_and_with_a_tenant() -> None:
    live = parse_lmcache_key(f"tinymodel@01000100@0@{HASH}".encode())
    assert live is not None
    assert (live.form, live.kind, live.rank, live.salt) == (LmcacheForm.SERVER, LmcacheKind.CHUNK, "01000100@0", None)
    salted = parse_lmcache_key(f"tinymodel@01000100@a@{HASH}@tenant@x".encode())
    assert salted is not None
    assert salted.salt == "tenant@x"


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"foo",
        b"a@b",
        b"\xff@1@0@ab@half",
        b"@1@0@abcd@half",
        b"m@1@0@xyz@half",
        b"m@1@0@abcd@",
        b"key:000000000001",
    ],
)
def test_lmcache_other_keys_are_none(key: bytes) -> None:
    assert parse_lmcache_key(key) is None


@pytest.mark.parametrize(
    "key", [b"m@1@0@ab@h" + b"@a%b" * 250 + b"!", b"@" * 1024, b"m@1@0@" + b"a" * 1015, b"x" * 10**6]
)
@pytest.mark.timeout(2)
def test_lmcache_hostile_key_is_answered_at_once(key: bytes) -> None:
    assert parse_lmcache_key(key) is None or len(key) <= 1024
