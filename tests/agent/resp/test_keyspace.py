"""Keys: presence, expiry, listing, deletion."""

import time

import pytest
import redis

from tests.agent.harness import Served, payload


def test_exists_counts_each_mention(client: redis.Redis) -> None:
    client.mset({"a": 1, "b": 2})
    assert client.exists("a", "b", "c", "a") == 3


@pytest.mark.parametrize("name", ["DEL", "UNLINK"])
def test_delete_counts_what_was_there(client: redis.Redis, name: str) -> None:
    client.mset({"a": 1, "b": 2})
    assert client.execute_command(name, "a", "b", "c", "a") == 2
    assert client.mget("a", "b") == [None, None]


def test_touch_and_type(client: redis.Redis) -> None:
    client.set("a", 1)
    assert client.touch("a", "b") == 1
    assert client.type("a") == b"string"
    assert client.type("b") == b"none"


def test_expire_persist_and_conditions(client: redis.Redis) -> None:
    client.set("k", "v")
    assert client.ttl("k") == -1
    assert client.pttl("nope") == -2
    assert client.expire("k", 100, xx=True) == 0
    assert client.expire("k", 100, nx=True) == 1
    assert client.expire("k", 50, gt=True) == 0
    assert client.expire("k", 200, gt=True) == 1
    assert client.expire("k", 300, lt=True) == 0
    assert client.pexpire("k", 90_000, lt=True) == 1
    assert 85 <= client.ttl("k") <= 90
    assert client.persist("k") == 1
    assert client.persist("k") == 0
    assert client.ttl("k") == -1
    assert client.expire("nope", 10) == 0
    assert client.expire("k", -1) == 1
    assert client.exists("k") == 0


def test_expired_blocks_are_swept_without_anybody_asking(service: Served, client: redis.Redis) -> None:
    for number in range(100):
        client.set(f"k{number}", payload(number, 50_000), px=50)
    deadline = time.monotonic() + 5
    while client.dbsize() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert client.dbsize() == 0
    assert service.plane.tier("dram").stored_bytes == 0
    assert service.plane.tier("flash").stored_bytes == 0


def test_scan_returns_every_key_once_while_others_come_and_go(client: redis.Redis) -> None:
    wanted = {f"stay{n}".encode() for n in range(500)}
    client.mset(dict.fromkeys(wanted, b"v"))
    seen: list[bytes] = []
    cursor, turn = 0, 0
    while True:
        cursor, keys = client.scan(cursor, count=37)
        seen += keys
        client.set(f"new{turn}", "v")
        client.set(b"stay%d" % turn, "again")
        client.delete(f"new{turn - 1}")
        turn += 1
        if cursor == 0:
            break
    assert len(seen) == len(set(seen))
    assert wanted <= set(seen)


def test_scan_match_count_type(client: redis.Redis) -> None:
    client.mset({"user:1": 1, "user:2": 1, "uses": 1, "other": 1})
    assert sorted(client.scan_iter("user:*")) == [b"user:1", b"user:2"]
    assert sorted(client.scan_iter("use[rs]*")) == [b"user:1", b"user:2", b"uses"]
    assert sorted(client.scan_iter("*", count=1)) == [b"other", b"user:1", b"user:2", b"uses"]
    assert len(list(client.scan_iter(_type="string"))) == 4
    assert list(client.scan_iter(_type="list")) == []


@pytest.mark.parametrize(
    "arguments",
    [("x",), ("-1",), ("99999999999999",), ("0", "MATCH"), ("0", "COUNT", "0"), ("0", "COUNT", "x"), ("0", "FOO", "1")],
)
def test_scan_bad_arguments_are_errors(client: redis.Redis, arguments: tuple[str, ...]) -> None:
    with pytest.raises(redis.exceptions.ResponseError):
        client.execute_command("SCAN", *arguments)


@pytest.mark.parametrize("name", ["FLUSHDB", "FLUSHALL"])
def test_flush_leaves_nothing_in_either_tier(service: Served, client: redis.Redis, name: str) -> None:
    for number in range(60):
        client.set(f"k{number}", payload(number, 300_000))
    assert client.execute_command(name, "ASYNC") in (True, b"OK")
    assert client.dbsize() == 0
    assert client.get("k1") is None
    service.plane.settle()
    assert service.plane.pool.alive_bytes == 0
    client.set("k1", b"new")
    assert client.get("k1") == b"new"
