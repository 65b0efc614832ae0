"""The websocket side of the ASGI application: origin, then session, then the one consumer."""

from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path

from telemetry.live.consumer import LiveConsumer
from telemetry.live.origin import SiteOriginValidator


class TransportAbort:
    """Puts `fabric.abort` into the scope: cut this connection now.

    ASGI has no such message, and a close handshake never ends with a peer that does not read. uvicorn's `send` is a
    method of the protocol that owns the transport; under a server where it is not, the entry is None.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        """Pass on."""
        transport = getattr(getattr(send, "__self__", None), "transport", None)
        abort = getattr(transport, "abort", None)
        return await self._application({**scope, "fabric.abort": abort}, receive, send)


_live: Any = LiveConsumer.as_asgi()
_nothing_here: Any = WebsocketDenier.as_asgi()
_routes: Any = [path("ws/live/", _live), re_path(r"", _nothing_here)]

websocket_application = TransportAbort(SiteOriginValidator(AuthMiddlewareStack(URLRouter(_routes))))
