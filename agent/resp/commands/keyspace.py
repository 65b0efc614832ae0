"""Commands about keys: presence, age, listing, deletion."""

import time

from agent.resp.commands.base import Command, CommandError, Table, integer_of, key_of, keys_of, option, word
from agent.resp.commands.values import confirm
from agent.resp.connection import Connection
from agent.resp.glob import MAX_PATTERN_BYTES, literal_prefix, matches
from agent.resp.parser import Argument
from agent.resp.replies import OK, encode, integer, simple
from agent.resp.scans import ScanCursorError

DEFAULT_SCAN_COUNT = 10
MAX_SCAN_COUNT = 10_000


def exists(connection: Connection, arguments: list[Argument]) -> None:
    """EXISTS key [key ...]: counts no lookup and touches nothing"""
    connection.reply(integer(connection.server.store.exists(keys_of(connection, arguments[1:]))))


def delete(connection: Connection, arguments: list[Argument]) -> None:
    """DEL key [key ...], UNLINK key [key ...]"""
    count, barrier = connection.server.store.delete(keys_of(connection, arguments[1:]))
    confirm(connection, integer(count), barrier)


def touch(connection: Connection, arguments: list[Argument]) -> None:
    """TOUCH key [key ...]: a use of the blocks of one request, without reading them"""
    connection.reply(integer(connection.server.store.touch(keys_of(connection, arguments[1:]))))


def type_(connection: Connection, arguments: list[Argument]) -> None:
    """TYPE key"""
    present = connection.server.store.exists([key_of(connection, arguments[1])])
    connection.reply(simple("string" if present else "none"))


def ttl(connection: Connection, arguments: list[Argument]) -> None:
    """TTL key: seconds; -1 without expiry, -2 without the key"""
    connection.reply(integer(_remaining_ms(connection, arguments, 1000)))


def pttl(connection: Connection, arguments: list[Argument]) -> None:
    """PTTL key: milliseconds; -1 without expiry, -2 without the key"""
    connection.reply(integer(_remaining_ms(connection, arguments, 1)))


def expire(connection: Connection, arguments: list[Argument]) -> None:
    """EXPIRE key seconds [NX|XX|GT|LT]"""
    _expire(connection, arguments, 1000)


def pexpire(connection: Connection, arguments: list[Argument]) -> None:
    """PEXPIRE key milliseconds [NX|XX|GT|LT]"""
    _expire(connection, arguments, 1)


def persist(connection: Connection, arguments: list[Argument]) -> None:
    """PERSIST key"""
    key = key_of(connection, arguments[1])
    store = connection.server.store
    if store.expiry(key)[1] is None:
        connection.reply(integer(0))
        return
    done, barrier = store.set_expiry(key, None)
    confirm(connection, integer(int(done)), barrier)


def dbsize(connection: Connection, arguments: list[Argument]) -> None:
    """DBSIZE"""
    connection.reply(integer(len(connection.server.store)))


def flush(connection: Connection, arguments: list[Argument]) -> None:
    """FLUSHDB [ASYNC|SYNC], FLUSHALL [ASYNC|SYNC]"""
    if len(arguments) > 2 or (len(arguments) == 2 and option(arguments[1]) not in ("ASYNC", "SYNC")):
        raise CommandError("ERR syntax error")
    connection.server.store.flush()
    connection.reply(OK)


def scan(connection: Connection, arguments: list[Argument]) -> None:
    """SCAN cursor [MATCH pattern] [COUNT count] [TYPE string]"""
    cursor = integer_of(arguments[1])
    pattern, count, wanted = b"*", DEFAULT_SCAN_COUNT, "STRING"
    rest = arguments[2:]
    if len(rest) % 2:
        raise CommandError("ERR syntax error")
    for name, argument in zip(rest[::2], rest[1::2], strict=True):
        match option(name):
            case "MATCH":
                pattern = word(argument)
            case "COUNT":
                count = integer_of(argument)
            case "TYPE":
                wanted = option(argument)
            case _:
                raise CommandError("ERR syntax error")
    if count < 1 or len(pattern) > MAX_PATTERN_BYTES:
        raise CommandError("ERR syntax error")
    try:
        cursor, keys = connection.server.scans.next(cursor, min(count, MAX_SCAN_COUNT), connection.server.store)
    except ScanCursorError as problem:
        raise CommandError(f"ERR {problem}") from None
    prefix = literal_prefix(pattern)
    if wanted != "STRING":
        keys = []
    elif pattern != b"*":
        keys = [key for key in keys if key.startswith(prefix) and matches(pattern, key)]
    connection.reply(encode([str(cursor), keys], connection.resp3))


def _remaining_ms(connection: Connection, arguments: list[Argument], unit_ms: int) -> int:
    present, at_s = connection.server.store.expiry(key_of(connection, arguments[1]))
    if not present:
        return -2
    if at_s is None:
        return -1
    return max(0, round((at_s - time.time()) * 1000 / unit_ms))


def _expire(connection: Connection, arguments: list[Argument], unit_ms: int) -> None:
    key = key_of(connection, arguments[1])
    at_ms = integer_of(arguments[2]) * unit_ms + int(time.time() * 1000)
    name = option(arguments[0]).lower()
    if not -(1 << 53) < at_ms < 1 << 53:
        raise CommandError(f"ERR invalid expire time in '{name}' command")
    store = connection.server.store
    if len(arguments) > 4:
        raise CommandError(f"ERR wrong number of arguments for '{name}' command")
    if len(arguments) == 4 and not _allowed(option(arguments[3]), store.expiry(key)[1], at_ms / 1000):
        connection.reply(integer(0))
        return
    done, barrier = store.set_expiry(key, at_ms / 1000)
    confirm(connection, integer(int(done)), barrier)


def _allowed(condition: str, now_at_s: float | None, at_s: float) -> bool:
    """Tell whether EXPIRE's condition holds; a key without expiry counts as one that lives for ever."""
    match condition:
        case "NX":
            return now_at_s is None
        case "XX":
            return now_at_s is not None
        case "GT":
            return now_at_s is not None and at_s > now_at_s
        case "LT":
            return now_at_s is None or at_s < now_at_s
        case _:
            raise CommandError(f"ERR Unsupported option {condition}")


_READ = ("readonly", "fast")
_ALL_KEYS = (1, -1, 1)
TABLE: Table = {
    "exists": Command(exists, -2, "Counts which of the keys are there.", "generic", _READ, _ALL_KEYS),
    "del": Command(delete, -2, "Deletes blocks.", "generic", ("write",), _ALL_KEYS),
    "unlink": Command(delete, -2, "Deletes blocks.", "generic", ("write", "fast"), _ALL_KEYS),
    "touch": Command(touch, -2, "Notes a use of blocks.", "generic", _READ, _ALL_KEYS),
    "type": Command(type_, 2, "Returns the type of a key.", "generic", _READ, (1, 1, 1)),
    "ttl": Command(ttl, 2, "Returns the seconds until a key expires.", "generic", _READ, (1, 1, 1)),
    "pttl": Command(pttl, 2, "Returns the milliseconds until a key expires.", "generic", _READ, (1, 1, 1)),
    "expire": Command(expire, -3, "Lets a key expire after seconds.", "generic", ("write", "fast"), (1, 1, 1)),
    "pexpire": Command(pexpire, -3, "Lets a key expire after milliseconds.", "generic", ("write", "fast"), (1, 1, 1)),
    "persist": Command(persist, 2, "Lets a key expire no more.", "generic", ("write", "fast"), (1, 1, 1)),
    "scan": Command(scan, -2, "Lists keys in steps.", "generic", ("readonly",)),
    "dbsize": Command(dbsize, 1, "Returns the number of keys.", "server", _READ),
    "flushdb": Command(flush, -1, "Deletes everything.", "server", ("write",)),
    "flushall": Command(flush, -1, "Deletes everything.", "server", ("write",)),
}
