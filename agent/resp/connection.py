"""One client's connection: bytes in, commands one after the other, replies out in their order."""

import logging
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from agent.engines.dram import Value
from agent.resp.output import Output, Part, Slot
from agent.resp.parser import Argument, ProtocolError, RequestParser
from agent.resp.replies import error, null
from agent.resp.transport import Transport, WouldBlock
from agent.stats import Histogram
from agent.tiers import BlockRead, Found

if TYPE_CHECKING:
    from agent.resp.server import RespServer

RECEIVE_BYTES = 64 << 10
HEAD_BYTES = 2 << 10
"""Receive size after a large argument: another one probably follows, and its bytes belong elsewhere."""
RECEIVE_TURNS = 8
"""Receives of one connection before the others have their turn."""
MAX_SINK_BUFFERS = 64
MAX_SLOTS = 1024
"""Replies that may wait for flash before no further command is taken."""
SEND_TURN_BYTES = 4 << 20
LINGER_S = 1.0
READ = select.EPOLLIN
WRITE = select.EPOLLOUT

logger = logging.getLogger("agent.resp")


class Connection:
    """Owned by the loop thread; nothing here is called from another one."""

    def __init__(self, server: "RespServer", sock: socket.socket, transport: Transport, peer: str, number: int) -> None:
        self.server = server
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.number = number
        self.name = b""
        self.library: dict[str, bytes] = {}
        self.resp3 = False
        self.authenticated = False
        self.failures = 0
        self.created_s = self.active_s = self.must_authenticate_since_s = time.monotonic()
        self.stalled_since_s: float | None = None
        self.closed = False
        self.last_command = ""
        self.output = Output()
        self.parser = RequestParser(server.limits_before_auth, self._allocate, self._hold)
        self.interest = READ
        self._transport = transport
        self._receive_bytes = HEAD_BYTES
        self._closing_s: float | None = None
        self._shut = False
        self._held: list[Argument] | None = None
        self._reads: deque[tuple[BlockRead, Slot]] = deque()
        self._window_bytes = 0
        self._wants_write = False

    # --- events ------------------------------------------------------------------------------------------------------

    def on_event(self, mask: int) -> None:
        """Handle readiness."""
        if self.closed:
            return
        self.active_s = time.monotonic()
        try:
            if mask & WRITE:
                self._wants_write = False
                self.advance()
            if mask & ~WRITE and not self.closed:
                self._receive()
        except (OSError, ValueError) as problem:
            logger.debug("client %s: %s", self.peer, problem)
            self.close()

    def advance(self) -> None:
        """Send what is ready and take the commands that may be taken now."""
        if self.closed:
            return
        try:
            self._flush()
            self._process()
        except OSError as problem:
            logger.debug("client %s: %s", self.peer, problem)
            self.close()

    def close(self, reason: str | None = None) -> None:
        """End the connection at once; `reason` counts it as ended by the agent."""
        if self.closed:
            return
        self.closed = True
        if reason is not None:
            self.server.stats.connections_closed[reason] += 1
        for read, _ in self._reads:
            self.server.store.abandon(read)
        self._reads.clear()
        self.output.clear()
        self._held = None
        self.parser = RequestParser(self.server.limits_before_auth, self._allocate, self._hold)
        self.server.forget(self)
        self.sock.close()

    def close_gently(self, reason: str | None = None) -> None:
        """Take no more commands, send what is queued, then end."""
        if self._closing_s is None:
            self._closing_s = time.monotonic()
            if reason is not None:
                self.server.stats.connections_closed[reason] += 1

    @property
    def idle(self) -> bool:
        """Tell whether nothing is under way."""
        return not (self.output.queued_bytes or self.output.slots or self.parser.mid_command or self._held)

    def overdue(self, now_s: float) -> str | None:
        """Return the reason for which this connection must end now, if there is one."""
        config = self.server.config
        if self._closing_s is not None:
            sending = self.output.queued_bytes or self.output.slots
            patience_s = config.write_stall_timeout_s if sending else LINGER_S
            return "closed" if now_s - self._closing_s > patience_s else None
        if not self.authenticated and now_s - self.must_authenticate_since_s > config.auth_timeout_s:
            return "auth"
        if self.output.queued_bytes:
            since_s = now_s if self.stalled_since_s is None else self.stalled_since_s
            return "stalled" if now_s - since_s > config.write_stall_timeout_s else None
        if self.parser.mid_command and not self.output.slots:
            allowed_s = config.command_timeout_s + self.parser.received_bytes / (1 << 20)
            return "timeout" if time.perf_counter() - self.parser.started_s > allowed_s else None
        return "timeout" if now_s - self.active_s > config.idle_timeout_s and self.idle else None

    def sign_in(self) -> None:
        """Trust this connection from now on; a command that is arriving meanwhile falls under the wider limits."""
        self.authenticated = True
        self.parser.limits = self.server.limits

    def sign_out(self) -> None:
        """Forget everything that the client has told."""
        if self.authenticated:
            self.authenticated = False
            self.must_authenticate_since_s = time.monotonic()
        self.resp3 = False
        self.name = b""
        self.library.clear()
        self.parser.limits = self.server.limits_before_auth

    def describe(self) -> str:
        """Return the connection as a line of CLIENT LIST."""
        now_s = time.monotonic()
        fields = {
            "id": self.number,
            "addr": self.peer,
            "fd": self.fd,
            "name": self.name.decode("ascii", "replace"),
            "age": int(now_s - self.created_s),
            "idle": int(now_s - self.active_s),
            "db": 0,
            "omem": self.output.queued_bytes,
            "cmd": self.last_command,
            "resp": 3 if self.resp3 else 2,
            "lib-name": self.library.get("lib-name", b"").decode("ascii", "replace"),
            "lib-ver": self.library.get("lib-ver", b"").decode("ascii", "replace"),
        }
        return " ".join(f"{name}={value}" for name, value in fields.items())

    # --- replies (for the commands) ----------------------------------------------------------------------------------

    def reply(self, data: bytes) -> None:
        """Queue an encoded reply."""
        self.output.push(data)

    def reply_later(self) -> Callable[[list[Part]], None]:
        """Keep the place of a reply; the returned function fills it, from any thread."""
        slot = self.output.push_slot()
        return lambda parts: self.server.call_soon(partial(self._resolve, slot, parts))

    def reply_found(self, found: Found) -> None:
        """Queue a block as a bulk string, a null where there is none, or the place of one still on flash."""
        if isinstance(found, BlockRead):
            self._reads.append((found, self.output.push_slot()))
            self._pump()
        else:
            self.output.push(null(self.resp3) if found is None else found)

    def measure(self, histogram: Histogram, started_s: float) -> None:
        """Count a command's duration when its reply goes to the socket."""
        self.output.push_mark((histogram, started_s))

    # --- inside: receiving -------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            for _ in range(RECEIVE_TURNS):
                full = self._receive_sink() if self.parser.sink is not None else self._receive_bytes_once()
                self._process()
                if self.closed or not (full or self._transport.pending()) or not self.interest & READ:
                    return
            if self._transport.pending():
                self.server.call_soon(partial(self.on_event, READ))
        except WouldBlock as block:
            self._wants_write = block.wants_write
            self._update_interest()

    def _receive_bytes_once(self) -> bool:
        data = self._transport.receive(self._receive_bytes)
        if not data:
            self.close()
            return False
        if self._closing_s is None:
            self.parser.feed(data)
        full = len(data) == self._receive_bytes
        self._receive_bytes = RECEIVE_BYTES
        return full

    def _receive_sink(self) -> bool:
        """Receive into a large argument, and what follows it into the loop's spare buffer, in one call."""
        sink = self.parser.sink
        assert sink is not None
        views = sink.views()
        if len(views) <= MAX_SINK_BUFFERS:
            views.append(self.server.spare)
        else:
            del views[MAX_SINK_BUFFERS:]
        count = self._transport.receive_into(views)
        if not count:
            self.close()
            return False
        taken = min(count, sink.remaining)
        self.parser.filled(taken)
        if count > taken:
            self.parser.feed(bytes(self.server.spare[: count - taken]))
        self._receive_bytes = HEAD_BYTES
        return count == sum(map(len, views))

    # --- inside: commands --------------------------------------------------------------------------------------------

    def _process(self) -> None:
        """Carry out the commands that are there and may be taken now, and send the replies."""
        output = self.output
        more = True
        while more:
            more = self._take_commands()
            self.server.command_ended(self)
            if output.queued_bytes or output.slots or self.interest != READ or self._paused():
                self._flush()
            # What was sent at once may have ended the pause for which we stopped, and no event will tell.
            more = more and not self._paused()

    def _take_commands(self) -> bool:
        """Carry out commands; True when some may be left because too much output is waiting."""
        server, output = self.server, self.output
        pause_bytes = server.config.output_pause_bytes
        try:
            while self._closing_s is None:
                if output.queued_bytes >= pause_bytes or output.slots >= MAX_SLOTS:
                    return True
                command = self._held or self.parser.next_command()
                if command is None:
                    return False
                if not server.execute(self, command):
                    self._held = command
                    return False
                self._held = None
        except ProtocolError as problem:
            self.reply(error(f"ERR Protocol error: {problem}"))
            self.close_gently("protocol")
        return False

    def _paused(self) -> bool:
        output = self.output
        return (
            output.queued_bytes >= self.server.config.output_pause_bytes
            or output.slots >= MAX_SLOTS
            or self._closing_s is not None
            or self._held is not None
            or self.parser.blocked
        )

    def _allocate(self, size_bytes: int) -> Value | None:
        return self.server.allocate(self, size_bytes)

    def _hold(self, size_bytes: int) -> Value | None:
        return self.server.hold(self, size_bytes)

    # --- inside: sending ---------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Begin reads from flash, in the order of their replies, as far as the window of bytes allows."""
        window = self.server.config.output_pause_bytes
        while self._reads and self._window_bytes < window > self.output.queued_bytes:
            read, slot = self._reads.popleft()
            self._window_bytes += read.size_bytes
            read.begin(partial(self._deliver, slot, read.size_bytes))

    def _deliver(self, slot: Slot, size_bytes: int, value: Value | None) -> None:
        """Called from any thread."""
        self.server.call_soon(partial(self._block_read, slot, size_bytes, value))

    def _block_read(self, slot: Slot, size_bytes: int, value: Value | None) -> None:
        self._window_bytes -= size_bytes
        self._resolve(slot, [null(self.resp3) if value is None else value])

    def _resolve(self, slot: Slot, parts: list[Part]) -> None:
        if self.closed:
            return
        self.active_s = time.monotonic()
        self.output.resolve(slot, parts)
        self.advance()

    def _flush(self) -> None:
        output = self.output
        if self._reads:
            self._pump()
        if output.queued_bytes and not self._wants_write:
            self._send()
            if self._reads:
                self._pump()
        if output.marks:
            now_s = time.perf_counter()
            for histogram, started_s in output.marks:
                histogram.observe(now_s - started_s)
            output.marks.clear()
        if self._closing_s is not None and not (output.queued_bytes or output.slots or self._shut):
            self._shut = True
            self._transport.shutdown()
        self._update_interest()

    def _send(self) -> None:
        output, transport = self.output, self._transport
        turn = 0
        try:
            while turn < SEND_TURN_BYTES and output.queued_bytes:
                count = transport.send(output.next_buffers())
                output.sent(count)
                turn += count
            self.stalled_since_s = None
        except WouldBlock as block:
            self._wants_write = block.wants_write
            if turn or self.stalled_since_s is None:
                self.stalled_since_s = time.monotonic()

    def _update_interest(self) -> None:
        interest = READ if self._shut or not self._paused() else 0
        if self._wants_write or self.output.queued_bytes:
            interest |= WRITE
        if interest != self.interest and not self.closed:
            self.interest = interest
            self.server.watch(self)
