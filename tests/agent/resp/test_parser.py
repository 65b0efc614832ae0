"""The request parser: whole or in pieces it sees the same; whatever breaks a rule is an error and not a guess."""

import itertools
import os
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.engines.dram import MemoryPool, Value
from agent.resp.parser import DIRECT_BYTES, HOLD_BYTES, Argument, Limits, ProtocolError, RequestParser
from tests.agent.harness import command

LIMITS = Limits(arguments=100, argument_bytes=1 << 20, command_bytes=4 << 20)


def new_parser(limits: Limits = LIMITS, limit_bytes: int = 1 << 28) -> RequestParser:
    pool = MemoryPool(limit_bytes)
    return RequestParser(limits, pool.allocate, pool.hold)


def plain(argument: Argument) -> bytes:
    return argument.tobytes() if isinstance(argument, Value) else argument


def drive(parser: RequestParser, pieces: list[bytes]) -> list[list[bytes]]:
    """Feed pieces as a connection does: into the sink where there is one."""
    commands = []
    for piece in pieces:
        data = memoryview(piece)
        while data:
            sink = parser.sink
            if sink is None:
                parser.feed(bytes(data))
                data = data[len(data) :]
            else:
                taken = 0
                for view in sink.views():
                    part = data[taken : taken + len(view)]
                    memoryview(view)[: len(part)] = part
                    taken += len(part)
                parser.filled(taken)
                data = data[taken:]
            while (arguments := parser.next_command()) is not None:
                commands.append([plain(argument) for argument in arguments])
    return commands


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


sizes = st.one_of(
    st.integers(0, 40),
    st.sampled_from([DIRECT_BYTES - 1, DIRECT_BYTES, DIRECT_BYTES + 1, 65535, 65536, 65537, 200_000]),
)
arguments = sizes.flatmap(lambda size: st.integers(0, 255).map(lambda seed: random.Random(seed).randbytes(size)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(arguments, min_size=1, max_size=5), min_size=1, max_size=4), st.lists(st.integers(0), max_size=12)
)
def test_parser_pieces_of_any_size_give_the_same_commands(commands: list[list[bytes]], places: list[int]) -> None:
    stream = b"".join(command(*one) for one in commands)
    assert drive(new_parser(), cut(stream, places)) == commands


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.binary(max_size=30), min_size=1, max_size=5), min_size=1, max_size=4))
def test_parser_byte_by_byte_equals_whole(commands: list[list[bytes]]) -> None:
    stream = b"".join(command(*one) for one in commands)
    assert drive(new_parser(), [stream[i : i + 1] for i in range(len(stream))]) == commands


def test_parser_byte_by_byte_through_a_sink_equals_whole() -> None:
    body = os.urandom(DIRECT_BYTES + 3)
    stream = command(b"SET", b"k", body) + command(b"GET", b"k")
    assert drive(new_parser(), [stream[i : i + 1] for i in range(len(stream))]) == [
        [b"SET", b"k", body],
        [b"GET", b"k"],
    ]


def test_parser_large_argument_is_sealed_and_not_copied_into_bytes() -> None:
    parser = new_parser()
    body = os.urandom(100_000)
    stream = command(b"SET", b"k", body)
    parser.feed(stream[:100])
    assert parser.next_command() is None
    assert parser.sink is not None
    assert parser.sink.remaining == 100_000 - (100 - stream.index(body[:16]))
    assert drive(parser, [stream[100:]]) == [[b"SET", b"k", body]]


WRONG = [
    b"PING\r\n", b"GET key\r\n", b"\r\n", b"\n", b" *1\r\n", b"+OK\r\n", b"-ERR\r\n", b":1\r\n", b"$4\r\nPING\r\n",
    b"%1\r\n", b"~1\r\n", b"_\r\n", b"#t\r\n", b"(1\r\n", b"\x00", b"\xff", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n",
    b"*0\r\n", b"*-1\r\n", b"*-10\r\n", b"*+1\r\n", b"*01\r\n", b"* 1\r\n", b"*1 \r\n", b"*1_0\r\n", b"*1.0\r\n",
    b"*1e1\r\n", b"*0x1\r\n", b"*\r\n", b"*a\r\n", "*٣\r\n".encode(), b"*101\r\n", b"*2147483648\r\n",
    b"*99999999999\r\n", b"*1\n$4\r\nPING\r\n", b"*1\r$4\r\nPING\r\n", b"*11111111111111111111",
    b"*1\r\n*1\r\n$4\r\nPING\r\n", b"*1\r\n:1\r\n", b"*1\r\n+PING\r\n", b"*1\r\nPING\r\n", b"*1\r\n\r\n",
    b"*1\r\n$-1\r\n", b"*1\r\n$-2\r\n", b"*1\r\n$+4\r\nPING\r\n", b"*1\r\n$04\r\nPING\r\n", b"*1\r\n$ 4\r\nPING\r\n",
    b"*1\r\n$4 \r\nPING\r\n", b"*1\r\n$1_0\r\n", b"*1\r\n$\r\n\r\n", b"*1\r\n$x\r\n", "*1\r\n$٤\r\nPING\r\n".encode(),
    b"*1\r\n$1048577\r\n", b"*1\r\n$9999999999\r\n", b"*1\r\n$99999999999\r\n", b"*1\r\n$4\r\nPINGxx",
    b"*1\r\n$4\r\nPING\n\n", b"*1\r\n$4\r\nPINGGG\r\n", b"*1\r\n$4\nPING\r\n", b"*1\r\n$11111111111111111111",
    b"*5\r\n" + 5 * (b"$1048576\r\n" + b"x" * 1048576 + b"\r\n"),
]  # fmt: skip


@pytest.mark.parametrize("stream", WRONG, ids=lambda stream: repr(stream[:24]))
def test_parser_what_breaks_a_rule_is_an_error_whole_and_in_pieces(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        drive(new_parser(), [stream])
    step = max(1, len(stream) // 200)
    with pytest.raises(ProtocolError):
        drive(new_parser(), [stream[i : i + step] for i in range(0, len(stream), step)])


def test_parser_no_memory_blocks_until_there_is_some() -> None:
    pool = MemoryPool(100_000)
    parser = RequestParser(LIMITS, pool.allocate, pool.hold)
    occupied = pool.allocate(90_000)
    parser.feed(b"*1\r\n$50000\r\n")
    assert parser.next_command() is None
    assert parser.blocked
    del occupied
    assert parser.next_command() is None
    assert not parser.blocked
    assert parser.sink is not None


def test_parser_small_arguments_of_one_command_are_accounted_for() -> None:
    pool = MemoryPool(1 << 30)
    parser = RequestParser(LIMITS, pool.allocate, pool.hold)
    part = b"$10000\r\n" + b"x" * 10_000 + b"\r\n"
    parser.feed(b"*40\r\n" + part * 39)
    assert parser.next_command() is None
    assert pool.alive_bytes >= 390_000 - HOLD_BYTES
    parser.feed(part)
    assert parser.next_command() is not None
    assert pool.alive_bytes == 0


def test_parser_limits_change_between_commands() -> None:
    parser = new_parser(Limits(2, 10, 20))
    parser.feed(command(b"AUTH", b"secret"))
    assert parser.next_command() == [b"AUTH", b"secret"]
    parser.limits = LIMITS
    parser.feed(command(b"ECHO", b"x" * 1000))
    assert parser.next_command() == [b"ECHO", b"x" * 1000]


def test_parser_fuzz_never_anything_but_commands_or_a_protocol_error() -> None:
    """Mutations of valid streams, for two seconds: no other exception, and no argument beyond the limits."""
    chance = random.Random(20261201)
    alphabet = b"*$+-:0123456789\r\nabc\x00\xff"
    until = time.monotonic() + 2.0
    cases = refused = 0
    while time.monotonic() < until:
        stream = bytearray(
            b"".join(
                command(*[chance.randbytes(chance.randrange(12)) for _ in range(chance.randrange(1, 5))]) for _ in "ab"
            )
        )
        for _ in range(chance.randrange(6)):
            at = chance.randrange(len(stream))
            match chance.randrange(3):
                case 0:
                    stream[at] = chance.choice(alphabet)
                case 1:
                    stream.insert(at, chance.choice(alphabet))
                case 2:
                    del stream[at]
        pieces = cut(bytes(stream), [chance.randrange(1 << 16) for _ in range(chance.randrange(4))])
        try:
            for one in drive(new_parser(), pieces):
                assert 1 <= len(one) <= LIMITS.arguments
                assert all(len(argument) <= len(stream) for argument in one)
        except ProtocolError:
            refused += 1
        cases += 1
    assert cases > 1000
    assert 0 < refused < cases
