"""Pure rules of telemetry: topics of the live streams, and what may be scraped."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from fabric.core.errors import Problem

MAX_URL_CHARS = 500
MAX_TOKEN_CHARS = 4096
MAX_LABELS = 16
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_METADATA_HOSTS = frozenset({"metadata.google.internal", "metadata", "instance-data"})


class TopicKind(StrEnum):
    """What a live stream is about."""

    OVERVIEW = "overview"
    POOL = "pool"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Topic:
    """A live stream: the overview, one pool or one agent."""

    kind: TopicKind
    id: UUID | None = None

    def __str__(self) -> str:
        return self.kind.value if self.id is None else f"{self.kind.value}:{self.id}"


OVERVIEW = Topic(TopicKind.OVERVIEW)


def parse_topic(text: str) -> Topic:
    """Parse `overview`, `pool:<uuid>` or `agent:<uuid>` (canonical lower-case UUIDs). Raises `ValueError` otherwise."""
    kind, colon, rest = text.partition(":")
    if not colon and kind == TopicKind.OVERVIEW:
        return OVERVIEW
    if kind in (TopicKind.POOL, TopicKind.AGENT) and len(rest) == 36:
        found = UUID(rest)
        if str(found) == rest:
            return Topic(TopicKind(kind), found)
    raise ValueError("a topic is overview, pool:<uuid> or agent:<uuid>")


def is_forbidden_address(address: str) -> bool:
    """Tell whether a numeric address must never be scraped: link-local (cloud metadata), multicast, unspecified.

    Loopback and private networks are where targets are supposed to be.
    """
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip == ipaddress.ip_address("255.255.255.255")


def is_loopback_host(host: str) -> bool:
    """Tell whether a host name or numeric address is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def url_problems(url: str, *, with_token: bool) -> Iterator[Problem]:
    """Yield what is wrong with a scrape URL; `with_token` when a bearer token goes with it."""
    right = "give http(s)://host:port/path, such as http://127.0.0.1:8000/metrics"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        yield Problem("url", "this is not a URL", right)
        return
    if len(url) > MAX_URL_CHARS or any(c.isspace() or not c.isprintable() for c in url):
        yield Problem("url", f"longer than {MAX_URL_CHARS} characters, or with blanks or control characters", right)
    if parts.scheme not in ("http", "https") or not host:
        yield Problem("url", "no http or https address with a host", right)
        return
    if parts.username is not None or parts.fragment:
        yield Problem("url", "user names, passwords and fragments do not belong here", "give a bearer token instead")
    if host.lower().rstrip(".") in _METADATA_HOSTS or is_forbidden_literal(host):
        yield Problem("url", f"{host} is never scraped (link-local, multicast or metadata address)", right)
    if with_token and parts.scheme == "http" and not is_loopback_host(host):
        yield Problem("url", "the bearer token would travel in clear", "use https, or a loopback address")


def token_problems(token: str) -> Iterator[Problem]:
    """Yield what is wrong with a bearer token."""
    if len(token) > MAX_TOKEN_CHARS or not _TOKEN.fullmatch(token):
        text = f"longer than {MAX_TOKEN_CHARS} characters, or with blanks or characters beyond ASCII"
        yield Problem("bearer_token", text, "give the token alone, without the word Bearer")


def label_problems(labels: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a target's labels."""
    if len(labels) > MAX_LABELS:
        yield Problem("labels", f"{len(labels)} labels", f"give at most {MAX_LABELS}")
    for name, value in list(labels.items())[:MAX_LABELS]:
        if not _LABEL_NAME.fullmatch(name) or not isinstance(value, str) or len(value) > 255:
            text = "a label has a name of letters, digits and _ (at most 64) and a text of at most 255 characters"
            yield Problem(f"labels.{name[:64]}", text, "rename or shorten it")


def is_forbidden_literal(host: str) -> bool:
    """Tell whether a URL's host is a numeric address that must never be scraped; names are judged when resolved."""
    try:
        return is_forbidden_address(host)
    except ValueError:
        return False
