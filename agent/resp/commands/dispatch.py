"""From a request to its command: name, rights, number of arguments, errors, duration."""

import logging

from agent.resp.commands import introspect, keyspace, session, values
from agent.resp.commands.base import Command, CommandError, Table
from agent.resp.connection import Connection
from agent.resp.parser import Argument
from agent.resp.replies import error
from agent.stats import Histogram

TABLE: Table = {**values.TABLE, **keyspace.TABLE, **session.TABLE, **introspect.TABLE}
introspect.KNOWN.update(TABLE)

_BY_NAME: dict[bytes, tuple[str, Command]] = {
    spelling: (name, command) for name, command in TABLE.items() for spelling in (name.encode(), name.upper().encode())
}
_WRITES = frozenset(spelling for spelling, (_, command) in _BY_NAME.items() if "write" in command.flags)
NOAUTH = error("NOAUTH Authentication required.")

logger = logging.getLogger("agent.resp")


def execute(connection: Connection, arguments: list[Argument]) -> None:
    """Carry out one command and queue its reply; whatever goes wrong becomes an error reply."""
    found = _find(arguments[0])
    if found is None:
        connection.reply(NOAUTH if not connection.authenticated else _unknown(arguments))
        return
    name, command = found
    if not connection.authenticated and not command.before_auth:
        connection.reply(NOAUTH)
        return
    started_s = connection.parser.started_s
    connection.last_command = name
    try:
        if len(arguments) != command.arity and (command.arity > 0 or len(arguments) < -command.arity):
            raise CommandError(f"ERR wrong number of arguments for '{name}' command")
        command.handler(connection, arguments)
    except CommandError as problem:
        connection.reply(error(str(problem)))
    except OSError as problem:
        connection.reply(error(f"ERR the device refused: {problem.strerror}"))
    histograms = connection.server.stats.commands
    histogram = histograms.get(name)
    if histogram is None:
        histogram = histograms[name] = Histogram()
    connection.measure(histogram, started_s)


def is_write(arguments: list[Argument]) -> bool:
    """Tell whether a command may add to the store."""
    found = _find(arguments[0])
    return found is not None and "write" in found[1].flags and "denyoom" in found[1].flags


def _find(name: Argument) -> tuple[str, Command] | None:
    if not isinstance(name, bytes):
        return None
    return _BY_NAME.get(name) or _BY_NAME.get(name.lower())


def _unknown(arguments: list[Argument]) -> bytes:
    shown = [_shown(argument) for argument in arguments[:4]]
    rest = "".join(f"'{text}' " for text in shown[1:])
    return error(f"ERR unknown command '{shown[0]}', with args beginning with: {rest}")


def _shown(argument: Argument) -> str:
    return argument[:64].decode("utf-8", "replace") if isinstance(argument, bytes) else "…"
