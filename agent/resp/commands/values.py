"""Commands that read and write blocks."""

import time
from functools import partial

from agent.engines.dram import Value, pieces_of
from agent.resp.commands.base import Command, CommandError, Table, integer_of, key_of, keys_of, option, value_of
from agent.resp.connection import Connection
from agent.resp.parser import Argument
from agent.resp.replies import OK, array_header, bulk, integer, null
from agent.tiers import Barrier, BlockRead, Found, WriteOptions

REFUSED = "OOM the block does not fit: it is larger than every tier of this agent's policy"


def get(connection: Connection, arguments: list[Argument]) -> None:
    """GET key"""
    connection.reply_found(connection.server.store.lookup([key_of(connection, arguments[1])])[0])


def mget(connection: Connection, arguments: list[Argument]) -> None:
    """MGET key [key ...]: one request, head first"""
    found = connection.server.store.lookup(keys_of(connection, arguments[1:]))
    connection.reply(array_header(len(found)))
    for one in found:
        connection.reply_found(one)


def set_(connection: Connection, arguments: list[Argument]) -> None:
    """SET key value [NX|XX] [GET] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL]"""
    key = key_of(connection, arguments[1])
    value = value_of(connection, arguments[2])
    if len(arguments) == 3:
        insertion = connection.server.store.set_many([(key, value)])
        if insertion.hopeless:
            raise CommandError(REFUSED)
        confirm(connection, OK, insertion.barrier)
        return
    options = parse_set_options(arguments[3:])
    outcome = connection.server.store.set(key, value, options)
    if outcome.hopeless:
        raise CommandError(REFUSED)
    if options.want_old:
        _reply_old(connection, outcome.old, outcome.barrier)
    else:
        confirm(connection, OK if outcome.done else null(connection.resp3), outcome.barrier)


def mset(connection: Connection, arguments: list[Argument]) -> None:
    """MSET key value [key value ...]: one request, head first; what finds no room is left out"""
    if len(arguments) % 2 == 0:
        raise CommandError("ERR wrong number of arguments for 'mset' command")
    keys = keys_of(connection, arguments[1::2])
    items = [(key, value_of(connection, argument)) for key, argument in zip(keys, arguments[2::2], strict=True)]
    outcome = connection.server.store.set_many(items)
    if outcome.hopeless:
        raise CommandError(REFUSED)
    confirm(connection, OK, outcome.barrier)


def strlen(connection: Connection, arguments: list[Argument]) -> None:
    """STRLEN key"""
    connection.reply(integer(connection.server.store.size_of(key_of(connection, arguments[1])) or 0))


def getrange(connection: Connection, arguments: list[Argument]) -> None:
    """GETRANGE key start end: both inclusive, negative ones count from the end"""
    start, end = integer_of(arguments[2]), integer_of(arguments[3])
    found = connection.server.store.lookup([key_of(connection, arguments[1])])[0]
    if found is None:
        connection.reply(bulk(b""))
    elif isinstance(found, Value):
        first, length = _range(found.size_bytes, start, end)
        connection.output.push_range(found, first, length)
    else:
        then = connection.reply_later()
        found.begin(lambda value: then([_part(value, start, end)]))


def confirm(connection: Connection, reply: bytes, barrier: Barrier) -> None:
    """Reply once everything that must be on the device before is there."""
    if barrier.pending:
        barrier.when_done(partial(connection.reply_later(), [reply]))
    else:
        connection.reply(reply)


def parse_set_options(arguments: list[Argument]) -> WriteOptions:
    """Read what follows key and value of SET. Raises `CommandError` for anything contradictory."""
    seen: dict[str, int | None] = {}
    at = 0
    while at < len(arguments):
        name = option(arguments[at])
        kind = _KINDS.get(name)
        if kind is None or kind in seen:
            raise CommandError("ERR syntax error")
        if name in _UNITS:
            at += 1
            if at == len(arguments):
                raise CommandError("ERR syntax error")
            seen[kind] = _expiry_ms(name, integer_of(arguments[at]))
        else:
            seen[kind] = None if kind == "expiry" else int(name == "XX")
        at += 1
    expires_ms = seen.get("expiry")
    return WriteOptions(
        expires_at_s=None if expires_ms is None else expires_ms / 1000,
        keep_expiry="expiry" in seen and expires_ms is None,
        only_if_present=bool(seen["presence"]) if "presence" in seen else None,
        want_old="get" in seen,
    )


_UNITS = {"EX": 1000, "PX": 1, "EXAT": 1000, "PXAT": 1}
_KINDS = {**dict.fromkeys((*_UNITS, "KEEPTTL"), "expiry"), "NX": "presence", "XX": "presence", "GET": "get"}


def _expiry_ms(name: str, amount: int) -> int:
    at_ms = amount * _UNITS[name] + (0 if name.endswith("AT") else int(time.time() * 1000))
    if amount <= 0 or at_ms >= 1 << 53:
        raise CommandError("ERR invalid expire time in 'set' command")
    return at_ms


def _reply_old(connection: Connection, old: Found, barrier: Barrier) -> None:
    """Reply with what SET … GET replaced."""
    nothing = null(connection.resp3)
    if isinstance(old, BlockRead):
        then = connection.reply_later()
        old.begin(lambda value: barrier.when_done(lambda: then([nothing if value is None else value])))
    elif barrier.pending:
        barrier.when_done(partial(connection.reply_later(), [nothing if old is None else old]))
    else:
        connection.output.push(nothing if old is None else old)


def _range(size: int, start: int, end: int) -> tuple[int, int]:
    first = max(0, start + size) if start < 0 else start
    last = end + size if end < 0 else min(end, size - 1)
    return (0, 0) if first > last or first >= size else (first, last - first + 1)


def _part(value: Value | None, start: int, end: int) -> bytes:
    if value is None:
        return bulk(b"")
    first, length = _range(value.size_bytes, start, end)
    return bulk(b"".join(pieces_of(value.views, first, length)))


_READ = ("readonly", "fast")
_WRITE = ("write", "denyoom")
TABLE: Table = {
    "get": Command(get, 2, "Returns a block.", "string", _READ, (1, 1, 1)),
    "mget": Command(mget, -2, "Returns the blocks of one request.", "string", _READ, (1, -1, 1)),
    "set": Command(set_, -3, "Stores a block.", "string", _WRITE, (1, 1, 1)),
    "mset": Command(mset, -3, "Stores the blocks of one request.", "string", _WRITE, (1, -1, 2)),
    "strlen": Command(strlen, 2, "Returns the length of a block.", "string", _READ, (1, 1, 1)),
    "getrange": Command(getrange, 4, "Returns a part of a block.", "string", ("readonly",), (1, 1, 1)),
}
