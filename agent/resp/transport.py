"""Non-blocking bytes to and from a client, in the clear or through TLS."""

import socket
import ssl
from collections.abc import Sequence
from typing import Protocol

from agent.config import AgentConfig, ConfigError
from agent.engines.checksum import Piece


class WouldBlock(Exception):
    """Nothing can be moved now; `wants_write` tells which readiness to wait for."""

    def __init__(self, wants_write: bool) -> None:
        self.wants_write = wants_write


class Transport(Protocol):
    """A connected socket. Each call moves what it can at once; `WouldBlock` or `OSError` when that is nothing."""

    def receive(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end of the stream."""

    def receive_into(self, buffers: Sequence[Piece]) -> int:
        """Fill `buffers` in order; return the bytes, 0 at the end of the stream."""

    def send(self, buffers: Sequence[Piece]) -> int:
        """Send from `buffers` in order; return the bytes."""

    def pending(self) -> bool:
        """Tell whether received bytes wait inside the transport, where no selector sees them."""

    def shutdown(self) -> None:
        """End the outgoing stream."""


class PlainTransport:
    """TCP in the clear."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def receive(self, size: int) -> bytes:
        try:
            return self._sock.recv(size)
        except BlockingIOError:
            raise WouldBlock(False) from None

    def receive_into(self, buffers: Sequence[Piece]) -> int:
        try:
            return self._sock.recvmsg_into(buffers)[0]
        except BlockingIOError:
            raise WouldBlock(False) from None

    def send(self, buffers: Sequence[Piece]) -> int:
        try:
            return self._sock.sendmsg(buffers)
        except BlockingIOError:
            raise WouldBlock(True) from None

    def pending(self) -> bool:
        return False

    def shutdown(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)


class TlsTransport:
    """TCP through TLS. The handshake happens within the first receive."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def receive(self, size: int) -> bytes:
        try:
            return self._sock.recv(size)
        except ssl.SSLWantReadError:
            raise WouldBlock(False) from None
        except ssl.SSLWantWriteError:
            raise WouldBlock(True) from None
        except ssl.SSLEOFError:
            return b""

    def receive_into(self, buffers: Sequence[Piece]) -> int:
        try:
            return self._sock.recv_into(buffers[0])
        except ssl.SSLWantReadError:
            raise WouldBlock(False) from None
        except ssl.SSLWantWriteError:
            raise WouldBlock(True) from None
        except ssl.SSLEOFError:
            return 0

    def send(self, buffers: Sequence[Piece]) -> int:
        try:
            return self._sock.send(buffers[0])
        except ssl.SSLWantReadError:
            raise WouldBlock(False) from None
        except ssl.SSLWantWriteError:
            raise WouldBlock(True) from None

    def pending(self) -> bool:
        return self._sock.pending() > 0

    def shutdown(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    @property
    def sock(self) -> ssl.SSLSocket:
        """The socket that replaces the one given to it."""
        return self._sock


def tls_context(config: AgentConfig) -> ssl.SSLContext | None:
    """Return the server's TLS context, None when TLS is not configured.

    Raises:
        ConfigError: certificate or key cannot be used.
    """
    if config.tls_cert_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.tls_cert_file, config.tls_key_file)
    except (OSError, ssl.SSLError) as error:
        text = error.strerror or error.args[-1]
        raise ConfigError(
            f"KVAGENT_TLS_CERT_FILE and KVAGENT_TLS_KEY_FILE cannot be used ({text}): give a PEM chain and its key"
        ) from None
    return context
