"""Blocks in and out of one agent by redis-py (RESP3), with a bounded patience for an agent that is down."""

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.retry import Retry

CONNECT_TIMEOUT_S = 2.0
REPLY_TIMEOUT_S = 15.0
FIRST_BACKOFF_S = 0.25
MAX_BACKOFF_S = 2.0
MAX_KEYS_PER_COMMAND = 4000
MAX_BYTES_PER_COMMAND = 64 << 20
"""A request is one MGET and one MSET, as its atomic semantics need; only a larger one is cut, at these bounds."""
SHARE_INTERVAL_S = 1.0
ERROR_KINDS = ("connection", "timeout", "auth", "reply", "backing_off")


_T = TypeVar("_T")
logger = logging.getLogger("bench.replay")


class BlockError(Exception):
    """The agent did not serve. `kind` is one of `ERROR_KINDS`."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class PasswordFile(CredentialProvider):
    """Reads the data password at each connect, so that a rotated one is taken without a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_credentials(self) -> tuple[str]:
        """Return the password. Raises `redis.AuthenticationError` when there is none to read."""
        try:
            return (self._path.read_text().strip(),)
        except OSError as error:
            raise redis.AuthenticationError(f"{self._path}: {error.strerror}") from None


class BlockClient:
    """One agent. Thread-safe: each caller has a connection of its own."""

    def __init__(self, url: str, password_file: Path | None, payload_bytes: int, connections: int) -> None:
        """`url` is redis://host:port or rediss://…; nothing is connected yet."""
        self._name = url.rpartition("@")[2]
        credentials = {"credential_provider": PasswordFile(password_file)} if password_file else {}
        self._pool = redis.ConnectionPool.from_url(
            url,
            protocol=3,
            max_connections=connections,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=REPLY_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            **credentials,
        )
        self._redis = redis.Redis(connection_pool=self._pool)
        self._keys_per_command = max(1, min(MAX_KEYS_PER_COMMAND, MAX_BYTES_PER_COMMAND // payload_bytes))
        self._lock = threading.Lock()
        self._backoff_s = 0.0
        self._closed_until_s = 0.0
        self._looking = threading.Lock()
        self._look_again_s = 0.0
        self._hits = (0, 0)
        self._flash_share = 0.0

    def fetch(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the payload of each key, None for a miss. Raises `BlockError`."""
        found: list[bytes | None] = []
        for part in self._parts(keys):
            found += self._ask(functools.partial(self._redis.mget, part))
        return found

    def store(self, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        """Store (key, payload) pairs, head first. Raises `BlockError`."""
        for part in self._parts(blocks):
            self._ask(functools.partial(self._redis.mset, dict(part)))

    def flash_share(self) -> float:
        """Return the share (0..1) of the agent's hits that came from flash since the last look, a second ago at least.

        It is what `INFO stats` counts over all clients; 0 for a server that does not tell, as Redis.
        """
        now_s = time.monotonic()
        if now_s >= self._look_again_s and self._looking.acquire(blocking=False):
            try:
                self._look_again_s = now_s + SHARE_INTERVAL_S
                self._look_at_tiers()
            finally:
                self._looking.release()
        return self._flash_share

    def close(self) -> None:
        """Close every connection."""
        self._pool.disconnect()

    def _parts(self, items: Sequence[_T]) -> Iterator[Sequence[_T]]:
        for start in range(0, len(items), self._keys_per_command):
            yield items[start : start + self._keys_per_command]

    def _look_at_tiers(self) -> None:
        try:
            facts = self._ask(functools.partial(self._redis.info, "stats"))
        except BlockError:
            return
        counts = int(facts.get("dram_hits", 0)), int(facts.get("flash_hits", 0))
        dram, flash = (now - before for now, before in zip(counts, self._hits, strict=True))
        self._hits = counts
        if dram < 0 or flash < 0:  # the agent was started anew
            dram, flash = counts
        if dram + flash:
            self._flash_share = flash / (dram + flash)

    def _ask(self, command: Callable[[], Any]) -> Any:
        """Send one command unless the agent failed a moment ago."""
        if time.monotonic() < self._closed_until_s:
            raise BlockError("backing_off", "the agent failed a moment ago")
        try:
            reply = command()
        except redis.RedisError as error:
            kind = _kind(error)
            if kind != "reply":
                self._back_off(kind, error)
            raise BlockError(kind, str(error)) from None
        if self._backoff_s:
            self._backoff_s = self._closed_until_s = 0.0
            logger.info("%s serves again", self._name)
        return reply

    def _back_off(self, kind: str, error: redis.RedisError) -> None:
        with self._lock:
            if not self._backoff_s:
                logger.warning("%s does not serve (%s): %s", self._name, kind, error)
            if time.monotonic() < self._closed_until_s:
                return  # another caller failed at the same time: one step, not one per caller
            self._backoff_s = min(MAX_BACKOFF_S, self._backoff_s * 2 or FIRST_BACKOFF_S)
            self._closed_until_s = time.monotonic() + self._backoff_s


def _kind(error: redis.RedisError) -> str:
    if isinstance(error, redis.AuthenticationError):
        return "auth"
    if isinstance(error, redis.TimeoutError):
        return "timeout"
    if isinstance(error, redis.ConnectionError):
        return "connection"
    return "reply"
