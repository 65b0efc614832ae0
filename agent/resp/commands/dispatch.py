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

_Entry = tuple[str, Command, bool]
_ENTRIES: dict[bytes, _Entry] = {
    spelling: (name, command, "denyoom" in command.flags)
    for name, command in TABLE.items()
    for spelling in (name.encode(), name.upper().encode())
}
NOAUTH = error("NOAUTH Authentication required.")

logger = logging.getLogger("agent.resp")


def execute(connection: Connection, arguments: list[Argument]) -> bool:
    """Carry out one command and queue its reply; whatever goes wrong becomes an error reply.

    False when the command adds to a store that has no room for values on their way now: try again later.
    """
    entry = _find(arguments[0])
    if not connection.authenticated and (entry is None or not entry[1].before_auth):
        connection.reply(NOAUTH)
        return True
    if entry is None:
        connection.reply(_unknown(arguments))
        return True
    name, command, adds = entry
    if adds and connection.server.must_wait(connection):
        return False
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
    return True


def _find(name: Argument) -> _Entry | None:
    if not isinstance(name, bytes):
        return None
    return _ENTRIES.get(name) or _ENTRIES.get(name.lower())


def _unknown(arguments: list[Argument]) -> bytes:
    shown = [_shown(argument) for argument in arguments[:4]]
    rest = "".join(f"'{text}' " for text in shown[1:])
    return error(f"ERR unknown command '{shown[0]}', with args beginning with: {rest}")


def _shown(argument: Argument) -> str:
    return argument[:64].decode("utf-8", "replace") if isinstance(argument, bytes) else "…"
