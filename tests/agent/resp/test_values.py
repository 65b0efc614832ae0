"""GET, SET and their kin through redis-py, RESP2 and RESP3."""

import time

import pytest
import redis

from tests.agent.harness import MIB, Served, payload

SIZES = [0, 1, 100, 4095, 16_383, 16_384, 65_535, 65_536, 65_537, MIB, 5_000_001]


@pytest.mark.parametrize("size", SIZES)
def test_set_get_roundtrip_of_any_size(client: redis.Redis, size: int) -> None:
    data = payload(size, size)
    assert client.set("k", data) is True
    assert client.get("k") == data
    assert client.strlen("k") == size


def test_set_get_beyond_dram_comes_back_from_flash(service: Served, client: redis.Redis) -> None:
    blocks = {f"b{n}": payload(n, 300_000) for n in range(60)}
    for key, data in blocks.items():
        client.set(key, data)
    assert service.plane.tier("flash").stored_blocks > 0
    for key, data in blocks.items():
        assert client.get(key) == data
    assert client.mget(list(blocks)) == list(blocks.values())
    stats = service.plane.store.stats
    assert stats.lookup_blocks["flash"] > 0
    assert not stats.corrupt_blocks["flash"]


def test_mget_keeps_the_order_with_misses_and_duplicates(client: redis.Redis) -> None:
    client.mset({"a": b"1", "b": b"x" * 70_000, "c": b""})
    assert client.mget("c", "nope", "b", "a", "a") == [b"", None, b"x" * 70_000, b"1", b"1"]


def test_mset_same_key_twice_last_one_counts(service: Served) -> None:
    with service.raw() as raw:
        assert raw.call(b"MSET", b"k", b"1", b"k", b"2") == b"+OK\r\n"
        assert raw.call(b"GET", b"k") == b"$1\r\n"
        assert raw.line() == b"2\r\n"


def test_keys_are_bytes(client: redis.Redis) -> None:
    key = bytes(range(256))
    client.set(key, b"v")
    assert client.get(key) == b"v"
    assert client.get(b"") is None
    client.set(b"", b"empty key")
    assert client.get(b"") == b"empty key"


def test_set_nx_xx_and_get(client: redis.Redis) -> None:
    assert client.set("k", "1", xx=True) is None
    assert client.set("k", "1", nx=True) is True
    assert client.set("k", "2", nx=True) is None
    assert client.set("k", "3", xx=True) is True
    assert client.set("k", "4", get=True) == b"3"
    assert client.set("new", "5", get=True) is None
    assert client.set("k", "5", nx=True, get=True) == b"4"
    assert client.get("k") == b"4"
    assert client.set("absent", "6", xx=True, get=True) is None
    assert client.exists("absent") == 0


def test_set_get_option_returns_an_old_value_from_flash(service: Served, client: redis.Redis) -> None:
    old = payload("old", 200_000)
    client.set("k", old)
    for number in range(50):
        client.set(f"f{number}", payload(number, 300_000))
    service.plane.settle()
    assert service.plane.store._mover.entries[b"k"].value is None
    assert client.set("k", "new", get=True) == old
    assert client.get("k") == b"new"


def test_set_expiry_forms(client: redis.Redis) -> None:
    now = int(time.time())
    client.set("ex", "v", ex=100)
    client.set("px", "v", px=100_000)
    client.set("exat", "v", exat=now + 100)
    client.set("pxat", "v", pxat=(now + 100) * 1000)
    for key in ("ex", "px", "exat", "pxat"):
        assert 97 <= client.ttl(key) <= 100
        assert 97_000 <= client.pttl(key) <= 100_000
    client.set("ex", "w", keepttl=True)
    assert client.ttl("ex") > 90
    client.set("ex", "w")
    assert client.ttl("ex") == -1
    client.set("past", "v", exat=now - 10)
    assert client.exists("past") == 0


def test_set_short_expiry_is_gone_in_time(client: redis.Redis) -> None:
    client.set("k", "v", px=60)
    assert client.get("k") == b"v"
    time.sleep(0.08)
    assert client.get("k") is None
    assert client.exists("k") == 0
    assert client.ttl("k") == -2


def test_getrange_like_redis(client: redis.Redis, service: Served) -> None:
    text = b"This is a string"
    client.set("k", text)
    for start, end, expected in (
        (0, 3, b"This"), (-3, -1, b"ing"), (0, -1, text), (10, 100, b"string"), (5, 2, b""), (100, 200, b""),
        (-100, 3, b"This"), (0, -100, b""), (-1, -100, b""),
    ):  # fmt: skip
        assert client.getrange("k", start, end) == expected
    assert client.getrange("nope", 0, -1) == b""
    big = payload("big", 300_000)
    client.set("big", big)
    assert client.getrange("big", 60_000, 140_000) == big[60_000:140_001]
    for number in range(50):
        client.set(f"f{number}", payload(number, 300_000))
    assert client.getrange("big", 60_000, 140_000) == big[60_000:140_001]


def test_value_larger_than_every_tier_is_refused_and_counted(service: Served, client: redis.Redis) -> None:
    before = service.plane.store.stats.set_refused["too_large"]
    with pytest.raises(redis.exceptions.OutOfMemoryError, match="larger than every tier"):
        client.set("k", bytes(33 * MIB))
    assert service.plane.store.stats.set_refused["too_large"] == before + 1
    assert client.exists("k") == 0
    assert client.ping()


def test_mset_longer_than_the_cache_keeps_the_head(service: Served, client: redis.Redis) -> None:
    """New blocks go to DRAM and no block of a request makes room for another one of it."""
    blocks = {f"b{n}": payload(n, MIB) for n in range(12)}
    assert client.mset(blocks) is True
    assert [key for key in blocks if client.exists(key)] == list(blocks)[:8]
    assert client.get("b7") == blocks["b7"]
    assert service.plane.store.stats.set_refused["no_room"] >= 4


def test_lmcache_redis_connector_sequence(client: redis.Redis) -> None:
    """As recorded in the reference notes: payload, then metadata; EXISTS and GET of metadata, then of the payload."""
    key = "tiny@1@0@" + "ab" * 32 + "@bf16"
    data, meta = payload(key, 256 * 1024), bytes(28)
    assert client.exists(key + "metadata") == 0
    client.set(key + "kv_bytes", data)
    client.set(key + "metadata", meta)
    assert client.exists(key + "metadata") == 1
    assert client.get(key + "metadata") == meta
    assert client.get(key + "kv_bytes") == data
    client.delete(key + "kv_bytes")
    assert client.get(key + "metadata") == meta
    assert client.get(key + "kv_bytes") is None
    assert client.delete(key + "metadata") == 1


def test_counters_of_reads_follow_the_contract(service: Served, client: redis.Redis) -> None:
    stats = service.plane.store.stats
    client.mset({"a": "1", "b": "22", "d": "4444"})
    before = stats.snapshot(())
    client.mget("a", "b", "c", "d")
    client.get("a")
    client.get("nope")
    client.exists("a", "nope")
    client.strlen("a")
    after = stats.snapshot(())
    assert after.lookup_blocks["dram"] - before.lookup_blocks.get("dram", 0) == 4
    assert after.lookup_blocks["miss"] - before.lookup_blocks.get("miss", 0) == 2
    assert after.prefix_lookup_blocks - before.prefix_lookup_blocks == 6
    assert after.prefix_hit_blocks - before.prefix_hit_blocks == 3
    assert after.get_bytes["dram"] - before.get_bytes.get("dram", 0) == 8
    assert after.get_blocks["dram"] - before.get_blocks.get("dram", 0) == 4
    get = next(histogram for histogram in after.commands if histogram.command == "get")
    assert get.count >= 2
    assert get.sum_s > 0


def test_pipeline_of_mixed_commands_keeps_the_order(service: Served, client: redis.Redis) -> None:
    for number in range(40):
        client.set(f"f{number}", payload(number, 300_000))
    pipe = client.pipeline(transaction=False)
    for number in range(40):
        pipe.get(f"f{number}")
        pipe.set(f"s{number}", f"{number}")
        pipe.strlen(f"f{number}")
    replies = pipe.execute()
    assert replies[0::3] == [payload(number, 300_000) for number in range(40)]
    assert replies[1::3] == [True] * 40
    assert replies[2::3] == [300_000] * 40


def test_read_from_flash_before_a_write_of_the_same_key_gets_what_was_there(
    service: Served, client: redis.Redis
) -> None:
    """In one pipeline: the block is erased only after the reads that came before have it."""
    old = {f"k{n}": payload(n, 200_000) for n in range(20)}
    for key, data in old.items():
        client.set(key, data)
    for number in range(50):
        client.set(f"f{number}", payload(number, 300_000))
    service.plane.settle()
    pipe = client.pipeline(transaction=False)
    for number, key in enumerate(old):
        pipe.get(key)
        if number % 2:
            pipe.set(key, b"new")
        else:
            pipe.delete(key)
    assert pipe.execute()[::2] == list(old.values())
    assert client.mget(list(old)) == [b"new" if number % 2 else None for number in range(20)]
