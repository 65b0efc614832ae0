"""One open websocket. It holds at most one unsent frame per topic; what a slow reader is spared it can fetch later.

The protocol is docs/contracts.md, section 5. Close codes: 4401 not signed in (any more), 4408 too slow, 4429 too many
messages, 1003 no text, 1009 too large.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError

from fabric.core.actor import Actor
from fabric.core.api.principals import Principal
from telemetry.domain import Topic, parse_topic
from telemetry.live.access import may_watch
from telemetry.live.broadcaster import Broadcaster, current_broadcaster
from telemetry.live.ring import LiveFrame, Position

logger = logging.getLogger(__name__)

SEND_TIMEOUT_S = 10.0
SLOW_SEND_S = 1.0
"""A viewer on whom one message waits longer than a frame's interval is slow: it is given the newest frame, not all."""
PATIENCE_S = 1.5
"""How long a first viewer waits for the process to subscribe, before it is told that the stream is interrupted."""
MAX_TOPICS = 20
MAX_MESSAGE_CHARS = 4096
MAX_REPLIES = 64
SNAPSHOT_PART_CHARS = 48_000
"""A snapshot goes out in parts of about this size: a viewer that does not read costs one part of memory, not all."""
BURST_MESSAGES, MESSAGES_PER_S = 60, 10.0


@dataclass(slots=True)
class Subscription:
    """A topic of one socket: where it is, whether the ring must be asked first, and the one frame that waits."""

    topic: Topic
    position: Position
    behind: bool = True
    fresh: bool = True
    """No answer was sent yet: the first one is a snapshot unless the viewer resumes."""
    told: bool = False
    """The viewer knows that this stream is interrupted."""
    waiting: LiveFrame | None = None


class LiveConsumer(AsyncWebsocketConsumer):
    """Serves `/ws/live/`. All sending is done by one task, in order, each message with a time limit."""

    channel_layer_alias = None  # type: ignore[assignment]  # no layer at all: frames come from the broadcaster

    _sender: "asyncio.Task[None] | None" = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection; whatever ends it, nothing of it stays behind."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._let_go()

    async def dispatch(self, message: Any) -> None:
        """Handle one event. Channels' own looks after database connections each time; no connection is held here."""
        match message["type"]:
            case "websocket.connect":
                await self.websocket_connect(message)
            case "websocket.receive":
                await self.websocket_receive(message)
            case "websocket.disconnect":
                raise StopConsumer

    async def connect(self) -> None:
        """Accept; close at once with 4401 where nobody is signed in (a refused handshake would hide the code)."""
        await self.accept()
        user = self.scope.get("user")
        self.actor = user.as_actor() if isinstance(user, Principal) and getattr(user, "is_active", False) else None
        self.session_key = str(getattr(self.scope.get("session"), "session_key", None) or "")
        if self.actor is None or not self.session_key:
            self.actor = None
            await self.close(4401)
            return
        self._subscriptions: dict[str, Subscription] = {}
        self._replies: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._close_code = 0
        self._is_slow = False
        self._budget, self._budget_at = float(BURST_MESSAGES), time.monotonic()
        self._broadcaster: Broadcaster = current_broadcaster()
        self._broadcaster.join(self)
        self._sender = asyncio.create_task(self._send_all())

    async def _let_go(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            await self._broadcaster.leave(self)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer one message of the browser. Nothing that it sends is trusted, and nothing closes others."""
        if self.actor is None or self._close_code:
            return
        if text_data is None:
            self._close_soon(1003)
        elif len(text_data) > MAX_MESSAGE_CHARS:
            self._close_soon(1009)
        elif not self._within_budget():
            self._close_soon(4429)
        else:
            await self._act(text_data)

    # --- what the broadcaster calls: never blocks -------------------------------------------------------------------

    def watched(self) -> Iterable[Topic]:
        """Return the topics subscribed to."""
        return [subscription.topic for subscription in self._subscriptions.values()]

    def offer(self, frame: LiveFrame) -> None:
        """Keep the newest frame of a topic for the sender."""
        subscription = self._subscriptions.get(frame.topic)
        if subscription is not None:
            subscription.waiting = frame
            self._wake.set()

    def resync(self) -> None:
        """Ask the ring for what was missed while the stream was interrupted."""
        for subscription in self._subscriptions.values():
            subscription.behind = True
        self._wake.set()

    def permit(self, actor: Actor, topics: frozenset[Topic]) -> None:
        """Go on as `actor`, with `topics` only."""
        self.actor = actor
        for name, subscription in list(self._subscriptions.items()):
            if subscription.topic not in topics:
                self._unsubscribe(name)
                self._error(name, "this topic is gone, or you may not see it any more")

    def revoke(self) -> None:
        """Close: the session has ended."""
        self._close_soon(4401)

    # --- messages of the browser ------------------------------------------------------------------------------------

    async def _act(self, text: str) -> None:
        try:
            message = orjson.loads(text)
        except orjson.JSONDecodeError:
            message = None
        if not isinstance(message, dict):
            self._error(None, 'send a JSON object, such as {"op": "subscribe", "topic": "overview"}')
            return
        op, name = message.get("op"), message.get("topic")
        if op == "ping":
            self._reply({"type": "pong", "server_time_s": round(time.time(), 3)})
        elif op == "subscribe" and isinstance(name, str):
            await self._subscribe(name, message.get("resume"))
        elif op == "unsubscribe" and isinstance(name, str):
            self._unsubscribe(name)
        else:
            self._error(name, "op is subscribe or unsubscribe (with a topic), or ping")

    async def _subscribe(self, name: str, resume: Any) -> None:
        try:
            topic, position = parse_topic(name), _parse_position(resume)
        except ValueError as error:
            self._error(name, str(error))
            return
        if name not in self._subscriptions and len(self._subscriptions) >= MAX_TOPICS:
            self._error(name, f"at most {MAX_TOPICS} topics on one connection: unsubscribe from one first")
            return
        try:
            allowed = self.actor is not None and await may_watch(self.actor, topic)
        except DatabaseError:
            self._error(name, "the database does not answer: try again")
            return
        if not allowed:
            self._error(name, "there is no such topic, or none that you may see")
            return
        self._subscriptions[name] = Subscription(topic, position)
        self._broadcaster.watch(self, name)
        self._wake.set()

    def _unsubscribe(self, name: str) -> None:
        if self._subscriptions.pop(name, None) is not None:
            self._broadcaster.unwatch(self, name)

    def _within_budget(self) -> bool:
        now_s = time.monotonic()
        self._budget = min(float(BURST_MESSAGES), self._budget + (now_s - self._budget_at) * MESSAGES_PER_S)
        self._budget_at = now_s
        self._budget -= 1.0
        return self._budget >= 0.0

    # --- sending ----------------------------------------------------------------------------------------------------

    def _error(self, topic: Any, detail: str) -> None:
        self._reply({"type": "error", "topic": topic[:64] if isinstance(topic, str) else None, "detail": detail})

    def _reply(self, message: dict[str, Any]) -> None:
        if len(self._replies) >= MAX_REPLIES:
            self._close_soon(4429)
            return
        self._replies.append(orjson.dumps(message))
        self._wake.set()

    def _close_soon(self, code: int) -> None:
        self._close_code = self._close_code or code
        self._wake.set()

    async def _send_all(self) -> None:
        """Send what there is, topic by topic, until the socket closes."""
        try:
            while not self._close_code:
                await self._wake.wait()
                self._wake.clear()
                while self._replies and not self._close_code:
                    await self._push(self._replies.popleft().decode())
                for subscription in list(self._subscriptions.values()):
                    if self._subscriptions.get(str(subscription.topic)) is subscription:
                        await self._serve(subscription)
            await self._end(self._close_code)
        except TimeoutError:
            await self._end(4408)
        except asyncio.CancelledError:
            raise
        except (OSError, RuntimeError) as error:  # the peer went in the middle of a message
            logger.debug("a live socket ended while sending: %r", error)
        except Exception:
            logger.exception("a live socket failed")
            await self._end(1011)

    async def _serve(self, subscription: Subscription) -> None:
        if subscription.behind:
            await self._catch_up(subscription)
        frame, subscription.waiting = subscription.waiting, None
        if frame is None or subscription.behind:
            return
        ahead = frame.seq - subscription.position.seq
        if frame.epoch != subscription.position.epoch:  # the scraper began anew, with numbers of its own
            await self._catch_up(subscription)
        elif ahead > 1 and not self._is_slow:  # frames came in a burst; whoever reads fast enough gets them all
            await self._catch_up(subscription, while_fast=True)
        elif ahead > 0:
            await self._send_frame(subscription, frame)

    async def _catch_up(self, subscription: Subscription, *, while_fast: bool = False) -> None:
        """Send what the ring holds past the viewer's position: frames one by one, or all as a snapshot.

        `while_fast`: leave it once the viewer turns out to be slow; it gets the newest frame next.
        """
        name = str(subscription.topic)
        subscription.behind = False
        patience_s = 0.0 if any(s.told for s in self._subscriptions.values()) else PATIENCE_S
        missed = await self._broadcaster.missed_since(name, subscription.position, patience_s=patience_s)
        if missed is None:
            subscription.behind = True
            if not subscription.told:
                subscription.told = True
                self._error(
                    name, "the live stream is interrupted; it goes on by itself, charts may be polled meanwhile"
                )
            return
        subscription.told = False
        snapshot = missed.reset or (subscription.fresh and not subscription.position.epoch)
        subscription.fresh = False
        if missed.reset:
            epoch = missed.frames[-1].epoch if missed.frames else ""
            await self._push(orjson.dumps({"type": "reset", "topic": name, "epoch": epoch}).decode())
        if snapshot:
            await self._send_snapshot(subscription, name, list(missed.frames))
            return
        for frame in missed.frames:
            if self._close_code or (while_fast and self._is_slow):
                return
            await self._send_frame(subscription, frame)

    async def _send_snapshot(self, subscription: Subscription, name: str, frames: list[LiveFrame]) -> None:
        """Send frames in parts, oldest first; an empty ring is an empty snapshot."""
        if not frames:
            await self._push(_snapshot(name, Position(), []))
            return
        part: list[LiveFrame] = []
        size = 0
        for index, frame in enumerate(frames):
            part.append(frame)
            size += len(frame.text)
            if size >= SNAPSHOT_PART_CHARS or index == len(frames) - 1:
                position = Position(frame.epoch, frame.seq)
                await self._push(_snapshot(name, position, part))
                subscription.position = position
                part, size = [], 0

    async def _send_frame(self, subscription: Subscription, frame: LiveFrame) -> None:
        await self._push(frame.text)
        subscription.position = Position(frame.epoch, frame.seq)

    async def _push(self, text: str) -> None:
        """Send one message. Raises `TimeoutError` when the viewer has not taken what went before within the limit."""
        started_s = time.monotonic()
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await self.send(text_data=text)
        self._is_slow = time.monotonic() - started_s > SLOW_SEND_S

    async def _end(self, code: int) -> None:
        """Close; a viewer that does not read would never take the close frame either, so its connection is cut."""
        try:
            async with asyncio.timeout(1.0):
                await self.close(code)
        except TimeoutError:
            abort: Any = self.scope.get("fabric.abort")
            if abort is not None:
                abort()


def _parse_position(resume: Any) -> Position:
    """Return the position in a `resume`; None is nowhere. Raises `ValueError`."""
    if resume is None:
        return Position()
    match resume:
        case {"epoch": str(epoch), "seq": int(seq)} if len(epoch) <= 64 and 0 <= seq < 1 << 53:
            return Position(epoch, seq)
    raise ValueError('resume is null or {"epoch": text, "seq": whole number}')


def _snapshot(topic: str, position: Position, frames: list[LiveFrame]) -> str:
    """Return a snapshot message: frames are put in as they are, not parsed and written again."""
    front = orjson.dumps({"type": "snapshot", "topic": topic, "epoch": position.epoch, "seq": position.seq})
    return f'{front.decode()[:-1]},"frames":[{",".join(frame.text for frame in frames)}]}}'
