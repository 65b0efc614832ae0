"""Ways to tell that a service is ready. Each answers within a second and never raises."""

import http.client
import socket
import ssl
from pathlib import Path

from fabric.launch.child import Readiness
from fabric.launch.logfile import BoundedLog

TIMEOUT_S = 1.0


def answers_redis(path: Path) -> Readiness:
    """Ready when a Redis on the unix socket at `path` answers PING (not while it still loads its data)."""

    def check(_log: BoundedLog) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(TIMEOUT_S)
                connection.connect(str(path))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    return check


def accepts_tcp(host: str, port: int) -> Readiness:
    """Ready when something accepts connections there."""

    def check(_log: BoundedLog) -> bool:
        try:
            with socket.create_connection((host, port), TIMEOUT_S):
                return True
        except OSError:
            return False

    return check


def answers_http(host: str, port: int, path: str, *, tls: bool = False) -> Readiness:
    """Ready when a GET of `path` there is answered 200. The certificate is not judged: this only asks for life."""

    def check(_log: BoundedLog) -> bool:
        connection: http.client.HTTPConnection
        if tls:
            connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=_unverified())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return check


def says(text: str) -> Readiness:
    """Ready when the service has logged `text` since it was started."""

    def check(log: BoundedLog) -> bool:
        return text in log.text_since_start()

    return check


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
