"""Encodes replies, RESP2 or RESP3 as the client asked for."""

from collections.abc import Mapping, Sequence

OK = b"+OK\r\n"
PONG = b"+PONG\r\n"
NULL_2 = b"$-1\r\n"
NULL_3 = b"_\r\n"

Reply = bytes | str | int | None | Sequence["Reply"] | Mapping[str, "Reply"]


def null(resp3: bool) -> bytes:
    """Return the reply for something that is not there."""
    return NULL_3 if resp3 else NULL_2


def simple(text: str) -> bytes:
    """Return a status reply; `text` must have no line end."""
    return b"+%b\r\n" % text.encode()


def error(text: str) -> bytes:
    """Return an error reply: a code in capitals, then words. Line ends and control characters are replaced."""
    clean = "".join(char if char.isprintable() else "?" for char in text)
    return b"-%b\r\n" % clean.encode()


def integer(number: int) -> bytes:
    """Return an integer reply."""
    return b":%d\r\n" % number


def bulk(data: bytes) -> bytes:
    """Return a bulk string reply."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def array_header(count: int) -> bytes:
    """Return what precedes `count` replies of an array."""
    return b"*%d\r\n" % count


def encode(reply: Reply, resp3: bool) -> bytes:
    """Return any reply: texts as bulk strings, mappings as maps (RESP3) or flat arrays (RESP2)."""
    if reply is None:
        return null(resp3)
    if isinstance(reply, bytes):
        return bulk(reply)
    if isinstance(reply, str):
        return bulk(reply.encode())
    if isinstance(reply, int):
        return integer(reply)
    if isinstance(reply, Mapping):
        head = b"%%%d\r\n" % len(reply) if resp3 else array_header(2 * len(reply))
        return head + b"".join(encode(key, resp3) + encode(value, resp3) for key, value in reply.items())
    return array_header(len(reply)) + b"".join(encode(item, resp3) for item in reply)
