"""What a command is, and how its arguments are read."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agent.engines.dram import Value
from agent.resp.connection import Connection
from agent.resp.parser import Argument

MAX_WORD_BYTES = 512
"""Longest argument that is neither a key nor a value."""

_INTEGER = re.compile(rb"-?(0|[1-9][0-9]{0,18})")


class CommandError(Exception):
    """A command that cannot be carried out; the text is the error reply, its code first."""


class Command(NamedTuple):
    """One entry of the command table. `arity` counts the name; negative means at least so many.

    `keys` is (first, last, step) of the key arguments as Redis' `COMMAND` shows them; (0, 0, 0) for none.
    """

    handler: Callable[[Connection, list[Argument]], None]
    arity: int
    summary: str
    group: str = "connection"
    flags: Sequence[str] = ()
    keys: tuple[int, int, int] = (0, 0, 0)
    before_auth: bool = False


Table = dict[str, Command]


def word(argument: Argument) -> bytes:
    """Return a small argument as it is. Raises `CommandError` for a large one."""
    if isinstance(argument, Value) or len(argument) > MAX_WORD_BYTES:
        raise CommandError("ERR syntax error: an argument is too long")
    return argument


def option(argument: Argument) -> str:
    """Return an argument as an option's name, in capitals; unknown bytes are replaced."""
    return word(argument).decode("ascii", "replace").upper()


def key_of(connection: Connection, argument: Argument) -> bytes:
    """Return an argument as a key. Raises `CommandError` when it is too long."""
    limit = connection.server.config.max_key_bytes
    if isinstance(argument, Value) or len(argument) > limit:
        raise CommandError(f"ERR the key is longer than {limit} bytes")
    return argument


def keys_of(connection: Connection, arguments: Sequence[Argument]) -> list[bytes]:
    """Return arguments as keys. Raises `CommandError` when one is too long."""
    return [key_of(connection, argument) for argument in arguments]


def integer_of(argument: Argument) -> int:
    """Return an argument as a signed 64-bit integer in plain decimal digits. Raises `CommandError`."""
    digits = argument if isinstance(argument, bytes) else b""
    number = int(digits) if _INTEGER.fullmatch(digits) else 1 << 63
    if not -(1 << 63) <= number < 1 << 63:
        raise CommandError("ERR value is not an integer or out of range")
    return number


def value_of(connection: Connection, argument: Argument) -> Value:
    """Return an argument as a value that can be stored. Raises `CommandError` when there is no memory at all."""
    if isinstance(argument, Value):
        return argument
    value = connection.server.store.pool.adopt(argument)
    if value is None:
        raise CommandError("OOM no memory for the value")
    return value


def text_of(argument: Argument) -> bytes:
    """Return all bytes of an argument."""
    return argument.tobytes() if isinstance(argument, Value) else argument
