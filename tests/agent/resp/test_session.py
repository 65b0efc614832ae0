"""Who gets in, handshakes of real clients, and what the server says of itself."""

import time
from pathlib import Path

import pytest
import redis

from agent.resp.commands.dispatch import TABLE
from tests.agent.harness import PASSWORD, Served, served

SECRET = PASSWORD.encode()


def test_nothing_but_the_handshake_is_answered_before_authentication(service: Served) -> None:
    for name, command in TABLE.items():
        if command.before_auth:
            continue
        with service.raw(authenticated=False) as raw:
            arguments = [b"x"] * max(0, abs(command.arity) - 1)
            assert raw.call(name.encode(), *arguments).startswith(b"-NOAUTH"), name


@pytest.mark.parametrize("arguments", [(SECRET,), (b"default", SECRET)])
def test_auth_forms_that_let_in(service: Served, arguments: tuple[bytes, ...]) -> None:
    with service.raw(authenticated=False) as raw:
        assert raw.call(b"AUTH", *arguments) == b"+OK\r\n"
        assert raw.call(b"PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    "arguments",
    [(b"",), (b"wrong",), (SECRET + b"x",), (SECRET[:-1],), (b"admin", SECRET), (b"", SECRET), (b"default", b"")],
)
def test_auth_forms_that_do_not(service: Served, arguments: tuple[bytes, ...]) -> None:
    with service.raw(authenticated=False) as raw:
        assert raw.call(b"AUTH", *arguments).startswith(b"-WRONGPASS")
        assert raw.call(b"GET", b"k").startswith(b"-NOAUTH")


def test_auth_third_failure_ends_the_connection(service: Served) -> None:
    with service.raw(authenticated=False) as raw:
        for _ in range(3):
            assert raw.call(b"AUTH", b"wrong").startswith(b"-WRONGPASS")
        assert raw.closed()


def test_hello_forms(service: Served) -> None:
    with service.raw(authenticated=False) as raw:
        assert raw.call(b"HELLO").startswith(b"-NOAUTH")
        assert raw.call(b"HELLO", b"4").startswith(b"-NOPROTO")
        assert raw.call(b"HELLO", b"x").startswith(b"-ERR")
        assert raw.call(b"HELLO", b"3", b"AUTH", b"default").startswith(b"-ERR")
        assert raw.call(b"HELLO", b"3").startswith(b"-NOAUTH")
        assert raw.call(b"HELLO", b"3", b"AUTH", b"default", SECRET, b"SETNAME", b"me") == b"%7\r\n"
    with service.raw() as raw:
        assert raw.call(b"HELLO", b"2") == b"*14\r\n"


def test_reset_asks_for_the_password_again(service: Served) -> None:
    with service.raw() as raw:
        assert raw.call(b"RESET") == b"+RESET\r\n"
        assert raw.call(b"PING").startswith(b"-NOAUTH")


def test_quit_ends_after_ok(service: Served) -> None:
    with service.raw() as raw:
        assert raw.call(b"QUIT") == b"+OK\r\n"
        assert raw.closed()


def test_valkey_glide_handshake(service: Served) -> None:
    """HELLO 3 with credentials, CLIENT SETINFO twice, INFO REPLICATION (reference notes, section 1)."""
    client = service.client(protocol=3, client_name="glide")
    assert client.client_setinfo("LIB-NAME", "GlidePySync")
    assert client.client_setinfo("LIB-VER", "2.6.0")
    assert client.info("REPLICATION")["role"] == "master"
    assert client.client_getname() in (b"glide", "glide")
    listed = client.client_list()
    assert any(one["name"] == "glide" and one["lib-name"] == "GlidePySync" for one in listed)
    assert client.client_info()["resp"] in ("3", 3)
    assert client.client_id() > 0


def test_client_errors_are_clear(client: redis.Redis) -> None:
    for arguments in (
        ("KILL", "1.2.3.4:5"),
        ("SETNAME", "a b"),
        ("SETINFO", "x", "y"),
        ("NO-EVICT", "maybe"),
        ("FOO",),
    ):
        with pytest.raises(redis.exceptions.ResponseError):
            client.execute_command("CLIENT", *arguments)
    assert client.execute_command("CLIENT", "NO-EVICT", "ON") in (b"OK", True)


def test_select_zero_only(client: redis.Redis) -> None:
    assert client.select(0)
    with pytest.raises(redis.exceptions.ResponseError, match="out of range"):
        client.select(1)


def test_echo_ping_of_any_size(client: redis.Redis) -> None:
    for size in (0, 10, 100_000):
        assert client.echo(b"x" * size) == b"x" * size


def test_ping_with_a_message(service: Served) -> None:
    with service.raw() as raw:
        assert raw.call(b"PING", b"hello") == b"$5\r\n"
        assert raw.line() == b"hello\r\n"


def test_info_sections(client: redis.Redis) -> None:
    everything = client.info()
    for field in ("redis_version", "connected_clients", "used_memory", "maxmemory", "keyspace_hits", "role"):
        assert field in everything
    assert set(client.info("memory")) >= {"used_memory", "maxmemory"}
    assert "role" not in client.info("memory")
    client.set("k", "v")
    assert client.info("keyspace")["db0"]["keys"] == 1


def test_config_get_and_nothing_else(client: redis.Redis) -> None:
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "allkeys-lru"}
    assert client.config_get("save") == {"save": ""}
    assert client.config_get("appendonly") == {"appendonly": "no"}
    assert set(client.config_get("max*")) == {"maxclients", "maxmemory", "maxmemory-policy"}
    assert client.config_get("nothing") == {}
    for arguments in (("SET", "maxmemory", "1"), ("REWRITE",), ("RESETSTAT",)):
        with pytest.raises(redis.exceptions.ResponseError, match="only CONFIG GET"):
            client.execute_command("CONFIG", *arguments)


def test_command_describes_every_command(client: redis.Redis) -> None:
    described = client.command()
    assert set(described) == set(TABLE)
    assert described["get"]["arity"] == 2
    assert client.command_count() == len(TABLE)


def test_command_subcommands(service: Served) -> None:
    with service.raw() as raw:
        assert raw.call(b"COMMAND", b"LIST") == b"*%d\r\n" % len(TABLE)
    with service.raw() as raw:
        assert raw.call(b"COMMAND", b"DOCS", b"get", b"nope") == b"*2\r\n"
        assert raw.line() == b"$3\r\n"
    with service.raw() as raw:
        assert raw.call(b"COMMAND", b"INFO", b"nope") == b"*1\r\n"
        assert raw.line() == b"*-1\r\n"


@pytest.mark.parametrize(
    "name", ["KEYS", "EVAL", "DEBUG", "MONITOR", "SUBSCRIBE", "SHUTDOWN", "SLAVEOF", "SAVE", "MULTI"]
)
def test_commands_we_do_not_have_are_unknown(client: redis.Redis, name: str) -> None:
    with pytest.raises(redis.exceptions.ResponseError, match="unknown command"):
        client.execute_command(name, "*")


def test_readonly_says_there_is_no_cluster(client: redis.Redis) -> None:
    for arguments in (("READONLY",), ("CLUSTER", "SLOTS")):
        with pytest.raises(redis.exceptions.ResponseError, match="cluster support disabled"):
            client.execute_command(*arguments)


def test_wrong_number_of_arguments_is_an_error_for_every_command(service: Served) -> None:
    with service.raw() as raw:
        for name, command in TABLE.items():
            if abs(command.arity) > 1:
                assert raw.call(name.encode()).startswith(b"-ERR wrong number of arguments"), name
            if command.arity > 0:
                assert raw.call(name.encode(), *[b"x"] * command.arity).startswith(b"-ERR wrong number"), name


@pytest.mark.parametrize(
    "arguments",
    [
        (b"SET", b"k", b"v", b"EX"), (b"SET", b"k", b"v", b"EX", b"0"), (b"SET", b"k", b"v", b"EX", b"-1"),
        (b"SET", b"k", b"v", b"EX", b"1.5"), (b"SET", b"k", b"v", b"EX", b"9223372036854775807"),
        (b"SET", b"k", b"v", b"EX", b"10", b"PX", b"10"), (b"SET", b"k", b"v", b"EX", b"10", b"KEEPTTL"),
        (b"SET", b"k", b"v", b"NX", b"XX"), (b"SET", b"k", b"v", b"NX", b"NX"), (b"SET", b"k", b"v", b"FOO"),
        (b"SET", b"k", b"v", b"x" * 1000), (b"SET", b"k" * 1025, b"v"), (b"GET", b"k" * 100_000),
        (b"MSET", b"a", b"1", b"b"), (b"MSET", b"a", b"1", b"b" * 2000, b"2"), (b"EXPIRE", b"k", b"x"),
        (b"EXPIRE", b"k", b"1", b"YY"), (b"EXPIRE", b"k", b"99999999999999999999"),
        (b"EXPIRE", b"k", b"1", b"NX", b"XX"),
        (b"GETRANGE", b"k", b"a", b"1"), (b"GETRANGE", b"k", b"1_0", b"1"), (b"SELECT", b"01"), (b"SELECT", b"-1"),
        (b"FLUSHALL", b"NOW"), (b"FLUSHALL", b"SYNC", b"x"), (b"PING", b"a", b"b"), (b"AUTH", b"a", b"b", b"c"),
        (b"COMMAND", b"FOO"), (b"COMMAND", b"COUNT", b"x"), (b"HELLO", b"3", b"SETNAME", b"a b"), (b"x" * 20_000,),
    ],
)  # fmt: skip
def test_bad_arguments_are_an_error_reply_and_the_connection_goes_on(
    service: Served, arguments: tuple[bytes, ...]
) -> None:
    with service.raw() as raw:
        reply = raw.call(*arguments)
        assert reply.startswith(b"-")
        assert reply.endswith(b"\r\n")
        assert raw.call(b"PING") == b"+PONG\r\n"
        assert raw.call(b"EXISTS", b"k", b"a") == b":0\r\n", "nothing was half-applied"


def test_error_text_with_line_ends_cannot_forge_a_reply(service: Served) -> None:
    with service.raw() as raw:
        assert (
            raw.call(b"FOO\r\n+OK", b"a\r\n:1")
            == b"-ERR unknown command 'FOO??+OK', with args beginning with: 'a??:1' \r\n"
        )
        assert raw.call(b"PING") == b"+PONG\r\n"


def test_case_of_command_names_does_not_matter(service: Served) -> None:
    with service.raw() as raw:
        for name in (b"ping", b"PING", b"PiNg"):
            assert raw.call(name) == b"+PONG\r\n"


def test_many_connections_are_served_and_counted(tmp_path: Path) -> None:
    with served(tmp_path, settings={"max_connections": 20}) as service:
        raws = [service.raw() for _ in range(20)]
        assert all(raw.call(b"PING") == b"+PONG\r\n" for raw in raws)
        assert service.plane.store.stats.connections == 20
        with service.raw(authenticated=False) as refused:
            assert refused.line() == b"-ERR max number of clients reached\r\n"
            assert refused.closed()
        raws.pop().close()
        # The agent learns of a close when its loop reads the end of that stream, which may come after the next accept.
        deadline_s = time.monotonic() + 30
        while service.plane.store.stats.connections == 20:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        again = service.raw()
        assert again.call(b"PING") == b"+PONG\r\n"
        for raw in [*raws, again]:
            raw.close()
        assert service.plane.store.stats.connections_closed["limit"] == 1
