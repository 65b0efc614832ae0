"""Brings frames to Redis: into each topic's ring, then to whoever listens. Never in the way of scraping."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

import redis.asyncio
from redis.exceptions import RedisError, ResponseError

from telemetry.live.frames import EncodedFrame
from telemetry.live.redis import FRAMES_CHANNEL, RING_FRAMES, STATUS_KEY, RedisAddress, heed_cancellation, ring_key

logger = logging.getLogger(__name__)

STATUS_LIFE_S = 30
RING_LIFE_S = 86_400
"""A topic without new frames for a day is forgotten: its pool or agent is gone."""
EXPIRE_EVERY_FRAMES = 60
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.2, 2.0


class Publisher:
    """Sends the newest batch of frames; one that arrives while the last is still on its way replaces what waits.

    While Redis is away frames are lost: viewers see the jump in `seq`, and the store has every sample.
    """

    def __init__(self, address: RedisAddress, started_ms: int) -> None:
        self.faults: Counter[str] = Counter()
        self.published = 0
        self.connected = False
        self._address = address
        self._started_ms = started_ms
        self._waiting: tuple[Sequence[EncodedFrame], bytes] | None = None
        self._wake = asyncio.Event()

    def offer(self, frames: Sequence[EncodedFrame], status: bytes) -> None:
        """Hand over one tick's frames and the scraper's status (JSON); returns at once."""
        if self._waiting is not None:
            self.faults["frames_not_published"] += len(self._waiting[0])
        self._waiting = (frames, status)
        self._wake.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        client = self._address.connect()
        backoff_s = FIRST_BACKOFF_S
        try:
            while True:
                heed_cancellation()
                await self._wake.wait()
                self._wake.clear()
                batch, self._waiting = self._waiting, None
                if batch is None:
                    continue
                try:
                    await self._publish(client, *batch)
                except (RedisError, OSError, TimeoutError) as error:
                    if self.connected or not self.published:
                        logger.warning("live frames cannot be published: %s", error or type(error).__name__)
                    self.connected = False
                    self.faults["frames_not_published"] += len(batch[0])
                    self.faults["publish_failed"] += 1
                    await asyncio.sleep(backoff_s)
                    backoff_s = min(LAST_BACKOFF_S, 2 * backoff_s)
                else:
                    self.connected = True
                    self.published += len(batch[0])
                    backoff_s = FIRST_BACKOFF_S
        finally:
            await client.aclose()

    async def _publish(self, client: redis.asyncio.Redis, frames: Sequence[EncodedFrame], status: bytes) -> None:
        try:
            await self._send(client, frames, status)
        except ResponseError as error:
            if "equal or smaller" not in str(error) and "WRONGTYPE" not in str(error):
                raise
            # A ring of a scraper whose clock was ahead, or a foreign key: begin it anew. Frames go out twice; viewers
            # drop what they have by its number.
            self.faults["ring_restarted"] += 1
            await client.delete(*(ring_key(frame.topic) for frame in frames))
            await self._send(client, frames, status)

    async def _send(self, client: redis.asyncio.Redis, frames: Sequence[EncodedFrame], status: bytes) -> None:
        """One round trip: rings before the channel, so that whoever hears of a frame finds all before it in the ring.

        Ids of ring entries are `<start of the epoch>-<seq>`: missing frames are one range away.
        """
        async with client.pipeline(transaction=True) as pipe:
            for frame in frames:
                pipe.xadd(
                    ring_key(frame.topic),
                    {"epoch": frame.epoch, "seq": frame.seq, "frame": frame.body},
                    id=f"{self._started_ms}-{frame.seq}",
                    maxlen=RING_FRAMES,
                    approximate=False,
                )
                if frame.seq % EXPIRE_EVERY_FRAMES == 1:
                    pipe.expire(ring_key(frame.topic), RING_LIFE_S)
            for frame in frames:
                pipe.publish(FRAMES_CHANNEL, frame.body)
            pipe.set(STATUS_KEY, status, ex=STATUS_LIFE_S)
            await pipe.execute()
