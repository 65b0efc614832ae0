"""Commands about the connection itself: who is there, which protocol, names."""

import logging

from agent.resp.commands.base import Command, CommandError, Table, integer_of, option, text_of, word
from agent.resp.connection import Connection
from agent.resp.parser import Argument
from agent.resp.replies import OK, PONG, Reply, bulk, encode, error, integer, null, simple

USER = b"default"
MAX_FAILURES = 3
COMPATIBLE_VERSION = "7.0.15"
"""The Redis whose commands and replies were taken as the model; clients choose features by it."""
REJECTED = "WRONGPASS invalid username-password pair or user is disabled."

logger = logging.getLogger("agent.resp")


def hello(connection: Connection, arguments: list[Argument]) -> None:
    """HELLO [protover [AUTH username password] [SETNAME name]]"""
    version = _protocol(arguments[1]) if len(arguments) > 1 else None
    credentials: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    at = 2
    while at < len(arguments):
        match option(arguments[at]), len(arguments) - at:
            case "AUTH", left if left > 2:
                credentials = (word(arguments[at + 1]), word(arguments[at + 2]))
                at += 3
            case "SETNAME", left if left > 1:
                name = _checked_name(word(arguments[at + 1]))
                at += 2
            case _:
                raise CommandError("ERR Syntax error in HELLO option")
    if credentials is not None and not _authenticate(connection, *credentials):
        return
    if not connection.authenticated:
        raise CommandError(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
            "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at the "
            "same time"
        )
    if name is not None:
        connection.name = name
    if version is not None:
        connection.resp3 = version == 3
    greeting: dict[str, Reply] = {
        "server": "redis",
        "version": COMPATIBLE_VERSION,
        "proto": 3 if connection.resp3 else 2,
        "id": connection.number,
        "mode": "standalone",
        "role": "master",
        "modules": [],
    }
    connection.reply(encode(greeting, connection.resp3))


def auth(connection: Connection, arguments: list[Argument]) -> None:
    """AUTH [username] password"""
    if len(arguments) > 3:
        raise CommandError("ERR syntax error")
    user = word(arguments[1]) if len(arguments) == 3 else USER
    if _authenticate(connection, user, word(arguments[-1])):
        connection.reply(OK)


def ping(connection: Connection, arguments: list[Argument]) -> None:
    """PING [message]"""
    if len(arguments) > 2:
        raise CommandError("ERR wrong number of arguments for 'ping' command")
    connection.reply(PONG if len(arguments) == 1 else bulk(text_of(arguments[1])))


def echo(connection: Connection, arguments: list[Argument]) -> None:
    """ECHO message"""
    connection.reply(bulk(text_of(arguments[1])))


def select(connection: Connection, arguments: list[Argument]) -> None:
    """SELECT 0: there is one database"""
    if integer_of(arguments[1]) != 0:
        raise CommandError("ERR DB index is out of range")
    connection.reply(OK)


def reset(connection: Connection, arguments: list[Argument]) -> None:
    """RESET: back to how the connection began, not authenticated"""
    connection.sign_out()
    connection.reply(simple("RESET"))


def quit_(connection: Connection, arguments: list[Argument]) -> None:
    """QUIT"""
    connection.reply(OK)
    connection.close_gently()


def client(connection: Connection, arguments: list[Argument]) -> None:
    """CLIENT ID|GETNAME|SETNAME name|SETINFO attribute value|INFO|LIST|NO-EVICT on|off|NO-TOUCH on|off"""
    name = option(arguments[1])
    handler = _CLIENT.get((name, len(arguments) - 2))
    if handler is None:
        raise CommandError(f"ERR unknown subcommand or wrong number of arguments for '{name}'. Try COMMAND DOCS CLIENT")
    handler(connection, [word(argument) for argument in arguments[2:]])


def _id(connection: Connection, rest: list[bytes]) -> None:
    connection.reply(integer(connection.number))


def _get_name(connection: Connection, rest: list[bytes]) -> None:
    connection.reply(bulk(connection.name) if connection.name else null(connection.resp3))


def _set_name(connection: Connection, rest: list[bytes]) -> None:
    connection.name = _checked_name(rest[0])
    connection.reply(OK)


def _set_info(connection: Connection, rest: list[bytes]) -> None:
    attribute = rest[0].decode("ascii", "replace").lower()
    if attribute not in ("lib-name", "lib-ver"):
        raise CommandError(f"ERR Unrecognized option '{attribute}'")
    connection.library[attribute] = _checked_name(rest[1])
    connection.reply(OK)


def _info(connection: Connection, rest: list[bytes]) -> None:
    connection.reply(bulk(connection.describe().encode()))


def _list(connection: Connection, rest: list[bytes]) -> None:
    lines = [one.describe() for one in connection.server.connections.values()]
    connection.reply(bulk("\n".join([*lines, ""]).encode()))


def _on_or_off(connection: Connection, rest: list[bytes]) -> None:
    if rest[0].upper() not in (b"ON", b"OFF"):
        raise CommandError("ERR syntax error")
    connection.reply(OK)


_CLIENT = {
    ("ID", 0): _id,
    ("GETNAME", 0): _get_name,
    ("SETNAME", 1): _set_name,
    ("SETINFO", 2): _set_info,
    ("INFO", 0): _info,
    ("LIST", 0): _list,
    ("NO-EVICT", 1): _on_or_off,
    ("NO-TOUCH", 1): _on_or_off,
}


def _protocol(argument: Argument) -> int:
    version = text_of(argument)
    if not version.isdigit():
        raise CommandError("ERR Protocol version is not an integer or out of range")
    if version not in (b"2", b"3"):
        raise CommandError("NOPROTO unsupported protocol version")
    return int(version)


def _authenticate(connection: Connection, user: bytes, password: bytes) -> bool:
    """Let a connection in, or count a failure and reply with it; the third one ends the connection."""
    correct = connection.server.check_password(password)
    if correct and user == USER:
        connection.sign_in()
        return True
    connection.failures += 1
    connection.reply(error(REJECTED))
    if connection.failures >= MAX_FAILURES:
        logger.warning("client %s: %d wrong passwords", connection.peer, connection.failures)
        connection.close_gently("auth")
    return False


def _checked_name(name: bytes) -> bytes:
    if any(not 33 <= byte <= 126 for byte in name):
        raise CommandError("ERR Client names cannot contain spaces, newlines or special characters.")
    return name


_FAST = ("fast", "loading", "stale")
TABLE: Table = {
    "hello": Command(hello, -1, "Chooses the protocol and authenticates.", flags=("noauth", *_FAST), before_auth=True),
    "auth": Command(auth, -2, "Authenticates the connection.", flags=("noauth", *_FAST), before_auth=True),
    "ping": Command(ping, -1, "Returns PONG or the message.", flags=_FAST),
    "echo": Command(echo, 2, "Returns the message.", flags=_FAST),
    "select": Command(select, 2, "Chooses database 0, the only one.", flags=_FAST),
    "reset": Command(
        reset, 1, "Takes the connection back to its beginning.", flags=("noauth", *_FAST), before_auth=True
    ),
    "quit": Command(quit_, -1, "Ends the connection.", flags=("noauth", *_FAST), before_auth=True),
    "client": Command(client, -2, "Names and describes the connection.", flags=("loading", "stale")),
}
