"""One Redis subscriber per web process: hands each frame to the local viewers of its topic, by reference."""

import asyncio
import logging
import random
import time
from collections.abc import Iterable
from typing import Protocol

import redis.asyncio
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from fabric.core.actor import Actor
from fabric.core.events import CONTROL_CHANNEL
from telemetry.domain import Topic
from telemetry.live.access import RECHECK_EVERY_S, RECHECK_GRACE_S, Verdict, judge
from telemetry.live.redis import FRAMES_CHANNEL, RedisAddress, heed_cancellation
from telemetry.live.ring import LiveFrame, LocalRing, Missed, Position, parse_frame

logger = logging.getLogger(__name__)

POLL_S = 1.0
MAX_SILENT_POLLS = 3
"""A Redis that answers neither frames nor this many pings is gone, whatever the operating system still believes."""
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.1, 2.0


class Viewer(Protocol):
    """An open socket, as the broadcaster sees it. None of these may block."""

    session_key: str

    def watched(self) -> Iterable[Topic]:
        """Return the topics it subscribed to."""

    def offer(self, frame: LiveFrame) -> None:
        """Take a frame; one that was not sent yet gives way to it."""

    def resync(self) -> None:
        """The stream was interrupted: look into the ring for what was missed."""

    def permit(self, actor: Actor, topics: frozenset[Topic]) -> None:
        """It is still `actor`; watch only `topics` from now on."""

    def revoke(self) -> None:
        """The session has ended: close."""


class Broadcaster:
    """Viewers by topic, rings of watched topics, the subscriber, and the re-check of who may watch.

    Lives while somebody watches: the first viewer starts it, the last one's leaving ends it.
    """

    def __init__(self, address: RedisAddress) -> None:
        self.loop = asyncio.get_running_loop()
        self._address = address
        self._viewers: dict[Viewer, float] = {}
        self._topics: dict[str, set[Viewer]] = {}
        self._rings: dict[str, LocalRing] = {}
        self._client: redis.asyncio.Redis | None = None
        self._tasks: list[asyncio.Task[None]] = []  # held here: a task that nobody holds may be garbage-collected
        self._recheck_now = asyncio.Event()
        self._subscribed = asyncio.Event()

    @property
    def ready(self) -> bool:
        """True while the subscription stands: only then is the ring complete."""
        return self._subscribed.is_set()

    def join(self, viewer: Viewer) -> None:
        """Add an open socket."""
        self._viewers[viewer] = time.monotonic()
        if not self._tasks:
            self._client = self._address.connect()
            self._tasks = [asyncio.create_task(self._subscribe()), asyncio.create_task(self._recheck())]

    async def leave(self, viewer: Viewer) -> None:
        """Remove a socket that closed; with the last one everything ends."""
        for topic in list(self._topics):
            self.unwatch(viewer, topic)
        self._viewers.pop(viewer, None)
        if not self._viewers and self._tasks:
            tasks, self._tasks = self._tasks, []
            client, self._client = self._client, None
            self._subscribed.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if client is not None:
                await client.aclose()

    def watch(self, viewer: Viewer, topic: str) -> None:
        """Give `viewer` the frames of `topic` from now on."""
        self._topics.setdefault(topic, set()).add(viewer)
        self._rings.setdefault(topic, LocalRing(topic))

    def unwatch(self, viewer: Viewer, topic: str) -> None:
        """Stop that; a ring without viewers is dropped."""
        viewers = self._topics.get(topic)
        if viewers is None:
            return
        viewers.discard(viewer)
        if not viewers:
            del self._topics[topic]
            self._rings.pop(topic, None)

    async def missed_since(self, topic: str, position: Position, *, patience_s: float = 0.0) -> Missed | None:
        """Return what follows `position`, or None while Redis is away: the viewer is told to `resync` afterwards.

        A subscription that is just being made is waited for, at most `patience_s`.
        """
        if not self.ready and patience_s:
            try:
                async with asyncio.timeout(patience_s):
                    await self._subscribed.wait()
            except TimeoutError:
                return None
        ring = self._rings.get(topic)
        if ring is None or not self.ready or self._client is None:
            return None
        try:
            await ring.load(self._client)
        except (RedisError, OSError, TimeoutError):
            return None
        return ring.missed_since(position)

    async def _subscribe(self) -> None:
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                async with self._address.connect() as client, client.pubsub() as pubsub:
                    await pubsub.subscribe(FRAMES_CHANNEL, CONTROL_CHANNEL)
                    await self._listen(pubsub)
            except (RedisError, OSError, TimeoutError) as error:
                if self.ready or backoff_s == FIRST_BACKOFF_S:
                    logger.warning("live streams are interrupted, Redis is away: %s", error or type(error).__name__)
            except Exception:  # whatever it is, no viewer must be left without a subscriber
                logger.exception("the subscriber of live frames failed")
            backoff_s = FIRST_BACKOFF_S if self.ready else min(LAST_BACKOFF_S, 2 * backoff_s)
            self._subscribed.clear()
            for ring in self._rings.values():
                ring.interrupted()
            heed_cancellation()
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))  # noqa: S311 (jitter, not a secret)

    async def _listen(self, pubsub: redis.asyncio.client.PubSub) -> None:
        awaited = {FRAMES_CHANNEL.encode(), CONTROL_CHANNEL.encode()}
        silent = 0
        while True:
            message = await pubsub.get_message(timeout=POLL_S)
            heed_cancellation()
            silent = silent + 1 if message is None else 0
            if message is None:
                if silent >= MAX_SILENT_POLLS:
                    raise TimeoutError("no answer to pings")
                await pubsub.ping()
                continue
            if message["type"] == "subscribe":
                awaited.discard(message["channel"])
                if not awaited:
                    self._interrupted_no_more()
            elif message["type"] == "message" and message["channel"] == CONTROL_CHANNEL.encode():
                self._recheck_now.set()
            elif message["type"] == "message":
                self._deliver(message["data"])

    def _interrupted_no_more(self) -> None:
        self._subscribed.set()
        for viewer in list(self._viewers):
            viewer.resync()

    def _deliver(self, body: bytes) -> None:
        try:
            frame = parse_frame(body)
        except ValueError:
            logger.warning("a message of %d bytes on %s is not a frame", len(body), FRAMES_CHANNEL)
            return
        viewers = self._topics.get(frame.topic)
        if viewers:
            self._rings[frame.topic].append(frame)
            for viewer in viewers:
                viewer.offer(frame)

    async def _recheck(self) -> None:
        """Ask every few seconds, and at once on a control event, whether each session may still watch."""
        while True:
            try:
                async with asyncio.timeout(RECHECK_EVERY_S):
                    await self._recheck_now.wait()
            except TimeoutError:
                pass
            self._recheck_now.clear()
            sessions: dict[str, set[Topic]] = {}
            for viewer in self._viewers:
                sessions.setdefault(viewer.session_key, set()).update(viewer.watched())
            self._apply(await self._verdicts(sessions))

    @staticmethod
    async def _verdicts(sessions: dict[str, set[Topic]]) -> dict[str, Verdict]:
        try:
            return await judge(sessions)
        except DatabaseError as error:
            logger.warning("open live streams cannot be re-checked: %s", error)
        except Exception:  # the next round must come, or revoked sessions would go on watching
            logger.exception("open live streams cannot be re-checked")
        return {}

    def _apply(self, verdicts: dict[str, Verdict]) -> None:
        """Close or narrow viewers. One that could not be judged for long is closed: doubt does not let in."""
        now_s = time.monotonic()
        for viewer, checked_s in list(self._viewers.items()):
            verdict = verdicts.get(viewer.session_key)
            if verdict is not None and verdict.actor is not None:
                self._viewers[viewer] = now_s
                viewer.permit(verdict.actor, verdict.topics)
            elif verdict is not None or now_s - checked_s > RECHECK_GRACE_S:
                viewer.revoke()


_current: Broadcaster | None = None


def current_broadcaster() -> Broadcaster:
    """Return this process's broadcaster, of the event loop that runs."""
    global _current
    if _current is None or _current.loop is not asyncio.get_running_loop():
        _current = Broadcaster(RedisAddress.from_settings())
    return _current
