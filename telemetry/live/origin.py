"""Whose pages may open a websocket: those of this site, by scheme, host and port."""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

_PORTS = {"http": 80, "https": 443}


class SiteOriginValidator:
    """Lets a handshake pass when its `Host` is allowed and its `Origin` is this site: the configured public address, or
    the very host, port and scheme that the handshake came to. A missing Origin is refused: browsers always send one.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        """Pass on, or answer 403."""
        headers = {name: value.decode("latin-1") for name, value in scope.get("headers", [])}
        if self.is_allowed(headers.get(b"origin", ""), headers.get(b"host", "")):
            return await self._application(scope, receive, send)
        deny: Any = WebsocketDenier()
        return await deny(scope, receive, send)

    @staticmethod
    def is_allowed(origin: str, host: str) -> bool:
        """Judge the two headers."""
        name, _ = split_domain_port(host)
        if not name or not validate_host(name, settings.ALLOWED_HOSTS):
            return False
        found = _triple(origin)
        if found is None:
            return False
        scheme = "https" if settings.TLS else "http"
        return found in (_triple(settings.PUBLIC_URL), _triple(f"{scheme}://{host}"))


def _triple(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an origin, or None when it is not one."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or parts.username or parts.path or parts.query:
        return None
    return parts.scheme, parts.hostname.lower(), port or _PORTS[parts.scheme]
