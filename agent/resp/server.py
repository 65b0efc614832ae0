"""The loop that serves RESP: one thread, one epoll, everything non-blocking. Device I/O happens on other threads."""

import contextlib
import errno
import hashlib
import hmac
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from agent.config import AgentConfig
from agent.engines.dram import Value
from agent.resp.connection import READ, Connection
from agent.resp.parser import Argument, Limits
from agent.resp.replies import error
from agent.resp.scans import Scans
from agent.resp.transport import PlainTransport, TlsTransport, Transport, tls_context
from agent.tiers import TieredStore

LIMITS_BEFORE_AUTH = Limits(arguments=8, argument_bytes=1024, command_bytes=4096)
"""`HELLO 3 AUTH user password SETNAME name` has seven arguments."""
SPARE_BYTES = 4 << 10
TICK_S = 0.5
ACCEPTS_PER_TURN = 64
ACCEPT_PAUSE_S = 1.0
BACKLOG = 512

logger = logging.getLogger("agent.resp")


class Executor(Protocol):
    """Carries out one command (see `agent.resp.commands`); False when it must be tried again later."""

    def __call__(self, connection: Connection, arguments: list[Argument]) -> bool: ...


class RespServer:
    """Accepts clients and serves them until `stop`."""

    def __init__(
        self,
        config: AgentConfig,
        store: TieredStore,
        password: str,
        execute: Executor,
    ) -> None:
        """Open the door; clients are served once `start` was called.

        Raises:
            ConfigError: the TLS files cannot be used.
            OSError: the address is taken or not this machine's.
        """
        self.config = config
        self.store = store
        self.stats = store.stats
        self.execute = execute
        self.started_s = time.time()
        self.connections: dict[int, Connection] = {}
        self.scans = Scans()
        self.spare = memoryview(bytearray(SPARE_BYTES))
        self.limits_before_auth = LIMITS_BEFORE_AUTH
        self.limits = Limits(config.max_arguments, int(config.max_value_bytes), int(config.max_command_bytes))
        self._password_digest = _digest(password.encode())
        self._tls = tls_context(config)
        family = socket.AF_INET6 if ":" in config.resp_host else socket.AF_INET
        self._listener = socket.create_server((config.resp_host, config.resp_port), family=family, backlog=BACKLOG)
        self._listener.setblocking(False)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._wake_fd, READ)
        self._soon: deque[Callable[[], None]] = deque()
        self._woken = False
        self._accepting = False
        self._accept_again_s = 0.0
        self._next_number = 1
        self._thirsty: set[Connection] = set()
        self._overdraft: Connection | None = None
        self._draining = False
        self._drained = threading.Event()
        self._quitting = False
        self._thread = threading.Thread(target=self._run, name="resp", daemon=True)
        store.pool.on_freed = self._memory_freed

    # --- life --------------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """Port on which clients are accepted (useful when port 0 was asked for)."""
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()
        self.call_soon(self._accept_on)

    def stop(self, drain_timeout_s: float) -> None:
        """Accept nobody more, finish what is under way within `drain_timeout_s`, then close every connection."""
        if not self._thread.is_alive():
            self._close_all()
            return
        self.call_soon(self._drain)
        if not self._drained.wait(drain_timeout_s):
            logger.warning("some clients were cut off: they did not finish within %.1f s", drain_timeout_s)
        self._quitting = True
        self.call_soon(lambda: None)
        self._thread.join()

    def release(self) -> None:
        """Let go of what I/O threads may have used up to now: call it last, once the store is closed."""
        os.close(self._wake_fd)

    def check_password(self, password: bytes) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(_digest(password), self._password_digest)

    # --- for connections ---------------------------------------------------------------------------------------------

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run `action` on the loop thread. May be called from any thread."""
        self._soon.append(action)
        if not self._woken:
            self._woken = True
            os.eventfd_write(self._wake_fd, 1)

    def watch(self, connection: Connection) -> None:
        """Follow a connection's changed interest."""
        self._epoll.modify(connection.fd, connection.interest)

    def forget(self, connection: Connection) -> None:
        """Let go of a connection that is being closed."""
        del self.connections[connection.fd]
        self.stats.connections = len(self.connections)
        with contextlib.suppress(OSError):
            self._epoll.unregister(connection.fd)
        self._thirsty.discard(connection)
        if self._overdraft is connection:
            self._overdraft = None
            self._memory_freed()

    def allocate(self, connection: Connection, size_bytes: int) -> Value | None:
        """Return memory for an argument, or None: the connection is told when there may be some."""
        return self.store.pool.allocate(size_bytes) or self._or_wait(
            connection, lambda: self.store.pool.allocate(size_bytes, overdraft=True)
        )

    def hold(self, connection: Connection, size_bytes: int) -> Value | None:
        """Account for small arguments, or None as `allocate`."""
        return self.store.pool.hold(size_bytes) or self._or_wait(
            connection, lambda: self.store.pool.hold(size_bytes, overdraft=True)
        )

    def must_wait(self, connection: Connection) -> bool:
        """Tell whether nothing may be added to the store now: it cannot get rid of its blocks fast enough."""
        pool = self.store.pool
        if not pool.crowded() or self._overdraft is connection:
            return False
        pool.starved = True
        self._thirsty.add(connection)
        return True

    def command_ended(self, connection: Connection) -> None:
        """Take back what was lent to a connection for a command that is complete."""
        if self._overdraft is connection and not connection.parser.holds_memory:
            self._overdraft = None
            self._memory_freed()

    def _or_wait(self, connection: Connection, borrow: Callable[[], Value | None]) -> Value | None:
        """Let one connection at a time finish a command past the limit: else all could wait for each other."""
        if connection.parser.holds_memory and self._overdraft in (None, connection):
            self._overdraft = connection
            return borrow()
        self._thirsty.add(connection)
        return None

    # --- inside ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        next_tick_s = time.monotonic() + TICK_S
        try:
            while not self._quitting:
                for fd, mask in self._epoll.poll(TICK_S):
                    connection = self.connections.get(fd)
                    if connection is not None:
                        self._guarded(connection, mask)
                    elif fd == self._wake_fd:
                        os.eventfd_read(fd)
                    else:
                        self._accept()
                self._run_soon()
                if time.monotonic() >= next_tick_s:
                    next_tick_s = time.monotonic() + TICK_S
                    self._tick()
        finally:
            self._close_all()

    def _guarded(self, connection: Connection, mask: int) -> None:
        try:
            connection.on_event(mask)
        except Exception:
            logger.exception("client %s: an unexpected error ends this connection", connection.peer)
            connection.close("error")

    def _run_soon(self) -> None:
        self._woken = False
        for _ in range(len(self._soon)):
            action = self._soon.popleft()
            try:
                action()
            except Exception:
                logger.exception("an action of the loop failed")
        if self._soon and not self._woken:
            self._woken = True
            os.eventfd_write(self._wake_fd, 1)

    def _memory_freed(self) -> None:
        """Called from any thread, by the garbage collector too."""
        self.store.pool.starved = False
        self.call_soon(self._quench)

    def _quench(self) -> None:
        self.store.memory_freed()
        thirsty, self._thirsty = self._thirsty, set()
        for connection in thirsty:
            connection.advance()

    def _accept_on(self) -> None:
        if not self._accepting and not self._draining:
            self._accepting = True
            self._epoll.register(self._listener.fileno(), READ)

    def _accept_off(self) -> None:
        if self._accepting:
            self._accepting = False
            self._epoll.unregister(self._listener.fileno())

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    logger.warning("no new clients for a moment: %s", problem.strerror)
                    self._accept_off()
                    self._accept_again_s = time.monotonic() + ACCEPT_PAUSE_S
                    return
                continue
            self._admit(sock, address)

    def _admit(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self.stats.connections_total += 1
        sock.setblocking(False)
        if len(self.connections) >= self.config.max_connections:
            self.stats.connections_closed["limit"] += 1
            with contextlib.suppress(OSError):
                if self._tls is None:
                    sock.send(error("ERR max number of clients reached"))
            sock.close()
            return
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            transport: Transport = PlainTransport(sock)
            if self._tls is not None:
                secured = TlsTransport(sock, self._tls)
                sock, transport = secured.sock, secured
        except OSError:
            sock.close()
            return
        connection = Connection(self, sock, transport, f"{address[0]}:{address[1]}", self._next_number)
        self._next_number += 1
        self.connections[connection.fd] = connection
        self.stats.connections = len(self.connections)
        self._epoll.register(connection.fd, connection.interest)

    def _tick(self) -> None:
        now_s = time.monotonic()
        if not self._accepting and now_s >= self._accept_again_s:
            self._accept_on()
        for connection in list(self.connections.values()):
            reason = connection.overdue(now_s)
            if reason is not None:
                connection.close(None if reason == "closed" else reason)
        if self._draining:
            self._drain()

    def _drain(self) -> None:
        if not self._draining:
            self._draining = True
            self._accept_off()
            self._listener.close()
        for connection in list(self.connections.values()):
            if connection.idle:
                connection.on_event(READ)  # what was asked before the door closed is answered
            if connection.idle:
                connection.close()
        if not self.connections:
            self._drained.set()

    def _close_all(self) -> None:
        for connection in list(self.connections.values()):
            connection.close()
        self.store.pool.on_freed = None
        self._epoll.close()
        self._listener.close()


def _digest(password: bytes) -> bytes:
    return hashlib.sha256(password).digest()
