"""Where a request comes from."""

from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """Return the peer's address, an empty text where it has none (a unix socket).

    No header is read here: where a trusted proxy stands before us, the web server (uvicorn `--forwarded-allow-ips`)
    has put the client's address in place already.
    """
    return str(request.META.get("REMOTE_ADDR") or "")
