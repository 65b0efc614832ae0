"""Whose pages may open a websocket, header by header."""

import pytest
from django.test import override_settings

from telemetry.live.origin import SiteOriginValidator

ALLOWED = {
    "ALLOWED_HOSTS": ["fabric.example", "127.0.0.1", "[::1]"],
    "PUBLIC_URL": "https://fabric.example",
    "TLS": True,
}


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("https://fabric.example", "fabric.example", True),
        ("https://fabric.example:443", "fabric.example", True),
        ("https://FABRIC.example", "fabric.example", True),
        ("https://fabric.example", "127.0.0.1:8400", True),
        ("https://127.0.0.1:8400", "127.0.0.1:8400", True),
        ("https://[::1]:8400", "[::1]:8400", True),
        ("http://fabric.example", "fabric.example", False),
        ("https://fabric.example:8443", "fabric.example", False),
        ("https://fabric.example.evil", "fabric.example", False),
        ("https://evil.example", "fabric.example", False),
        ("https://evil.example", "evil.example", False),
        ("https://fabric.example", "evil.example", False),
        ("https://127.0.0.1:8401", "127.0.0.1:8400", False),
        ("https://fabric.example/path", "fabric.example", False),
        ("https://user@fabric.example", "fabric.example", False),
        ("https://fabric.example:x", "fabric.example", False),
        ("null", "fabric.example", False),
        ("", "fabric.example", False),
        ("https://fabric.example", "", False),
        ("https://", "fabric.example", False),
        ("file://", "fabric.example", False),
    ],
)
def test_origin_is_judged_by_scheme_host_and_port(origin: str, host: str, allowed: bool) -> None:
    with override_settings(**ALLOWED):
        assert SiteOriginValidator.is_allowed(origin, host) is allowed
