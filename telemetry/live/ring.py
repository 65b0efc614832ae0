"""The ring of a topic's last frames, in Redis and in this process: what a viewer missed, or a fresh start."""

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio

from telemetry.live.redis import RING_FRAMES, ring_key

_FRONT = re.compile(
    rb'\{"type":"frame","topic":"([a-z]+(?::[0-9a-f-]{36})?)","epoch":"([0-9a-f]{1,64})","seq":(\d{1,15}),'
)


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """A frame as it travels: its place, and the JSON text that every viewer gets unchanged."""

    topic: str
    epoch: str
    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class Position:
    """Where a viewer is in a stream. `seq` 0 with an empty epoch: nowhere yet."""

    epoch: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Missed:
    """What a viewer at some position lacks. `reset`: it must forget what it has, its frames are no longer followed."""

    reset: bool
    frames: Sequence[LiveFrame]


def parse_frame(body: bytes) -> LiveFrame:
    """Read topic, epoch and seq off the front of an encoded frame. Raises `ValueError` for anything else."""
    found = _FRONT.match(body)
    if found is None:
        raise ValueError("not a live frame")
    return LiveFrame(found[1].decode(), found[2].decode(), int(found[3]), body.decode())


def missed_since(frames: Sequence[LiveFrame], position: Position) -> Missed:
    """Return what follows `position` in a ring (one epoch, in order).

    Another epoch, or a position past the newest frame, is a reset. Frames that were never published, or that the ring
    has already dropped, are nowhere: the jump in `seq` (and in `at_s`) shows them, and what came before stays true.
    """
    if not frames or not position.epoch:
        return Missed(False, frames)
    if position.epoch != frames[-1].epoch or position.seq > frames[-1].seq:
        return Missed(True, frames)
    return Missed(False, [frame for frame in frames if frame.seq > position.seq])


class LocalRing:
    """One topic's ring in this process, so that a thousand viewers who come back at once cost Redis one read."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.loaded = False
        self._frames: deque[LiveFrame] = deque(maxlen=RING_FRAMES)
        self._loading = asyncio.Lock()

    def append(self, frame: LiveFrame) -> None:
        """Take a live frame. One of another epoch begins anew; one that is here already is left out."""
        if self._frames:
            last = self._frames[-1]
            if last.epoch != frame.epoch:
                self._frames.clear()
            elif frame.seq <= last.seq:
                return
        self._frames.append(frame)

    def interrupted(self) -> None:
        """Frames may have passed unheard: read Redis again before anything is told from here."""
        self.loaded = False
        self._frames.clear()

    def missed_since(self, position: Position) -> Missed:
        """Return what follows `position`."""
        return missed_since(list(self._frames), position)

    async def load(self, client: redis.asyncio.Redis) -> None:
        """Read the ring from Redis if that was not done since the last break. Raises `RedisError`, `OSError`."""
        async with self._loading:
            if self.loaded:
                return
            entries = await client.xrange(ring_key(self.topic))
            kept = _newest_epoch(entries)
            live = list(self._frames)
            self._frames.clear()
            for frame in (*kept, *live):  # frames that came while Redis was read stand at the end
                self.append(frame)
            self.loaded = True


def read_missed(client: redis.Redis, topic: str, position: Position) -> Missed:
    """Return what follows `position`, straight from Redis, for the REST twin. Raises `RedisError`, `OSError`.

    Ids of ring entries are `<start of the epoch>-<seq>`, so that what a poller lacks is one range.
    """
    key = ring_key(topic)
    newest: Any = client.xrevrange(key, count=1)
    if not newest:
        return Missed(False, [])
    start = newest[0][0].decode().split("-")[0]
    same_epoch = newest[0][1][b"epoch"].decode() == position.epoch
    after_seq = position.seq if same_epoch and position.seq <= int(newest[0][1][b"seq"]) else 0
    frames = _newest_epoch(client.xrange(key, min=f"{start}-{after_seq + 1}"))
    return Missed(bool(position.epoch) and (not same_epoch or position.seq > after_seq), frames)


def _newest_epoch(entries: Any) -> list[LiveFrame]:
    """Return the frames of the last epoch in a range of ring entries; anything else in the ring is left out."""
    frames = list(_frames(entries))
    return [frame for frame in frames if frame.epoch == frames[-1].epoch]


def _frames(entries: Any) -> Iterable[LiveFrame]:
    for _, fields in entries:
        try:
            yield parse_frame(fields[b"frame"])
        except (KeyError, ValueError):
            continue
