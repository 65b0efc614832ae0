"""Composition root of the ASGI application: pages and API by Django, live streams by `telemetry`."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fabric.settings")
django_application = get_asgi_application()  # before anything that imports models

from telemetry.live.routing import websocket_application  # noqa: E402

application = ProtocolTypeRouter({"http": django_application, "websocket": websocket_application})
