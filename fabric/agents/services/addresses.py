"""Which addresses an agent may name as its own. The control plane will call the first of them: it must not be led
astray.
"""

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from fabric.core.errors import Invalid, Problem

_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?")


def checked_addresses(manage_url: str, data_url: str, *, peer: str) -> None:
    """Check what an agent that calls from `peer` says of itself. Raises `Invalid` naming the field.

    Management addresses are private ones by nature, so private networks are allowed. Refused are: anything but
    scheme, host and port; addresses that are no single host's (unspecified, multicast) or a cloud's metadata
    service (link-local); loopback unless the agent itself calls from loopback; and HTTP without TLS beyond
    loopback, as the agent itself refuses to serve it.
    """
    problems: list[Problem] = []
    url = _split(manage_url, "manage_url", ("http", "https"), problems)
    if url is not None:
        loopback = _is_loopback(url.hostname or "")
        if loopback and not _is_loopback(peer):
            problem = Problem("manage_url", "it is the agent's own loopback address", "name one that others can reach")
            problems.append(problem)
        if url.scheme == "http" and not loopback:
            problems.append(Problem("manage_url", "it has no TLS", "give the agent a certificate, and https here"))
    _split(data_url, "data_url", ("redis", "rediss"), problems)
    if problems:
        raise Invalid("The agent's addresses cannot be used.", problems)


def _split(text: str, field: str, schemes: Collection[str], problems: list[Problem]) -> SplitResult | None:
    """Return the parts of scheme://host:port, or None after adding a problem."""
    remedy = f"give {' or '.join(schemes)}://host:port"
    try:
        url = urlsplit(text)
        plain = url.port is not None and url.path in ("", "/") and not (url.query or url.fragment or "@" in url.netloc)
    except ValueError:
        problems.append(Problem(field, "it is not an address", remedy))
        return None
    if not (plain and _is_host(url.hostname or "") and url.scheme in schemes and text.isascii() and text.isprintable()):
        problems.append(Problem(field, "it is not an address of this kind", remedy))
        return None
    literal = _literal(url.hostname or "")
    if literal is not None and (literal.is_unspecified or literal.is_multicast or literal.is_link_local):
        problems.append(Problem(field, "no agent can be there", "name an address of the agent's host"))
        return None
    return url


def _is_host(text: str) -> bool:
    return _literal(text) is not None or bool(_HOST_NAME.fullmatch(text))


def _is_loopback(host: str) -> bool:
    literal = _literal(host)
    return host.lower() == "localhost" or (literal is not None and literal.is_loopback)


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
