"""The host's inventory for whoever asks: read when somebody asks, but not more often than needed."""

import asyncio
import time
from collections.abc import Callable

from agent.discovery import discover_host
from agent.protocol import HostInventory

INVENTORY_CACHE_S = 10.0


class Inventory:
    """The host's inventory, read afresh when the last one is older than `INVENTORY_CACHE_S`."""

    def __init__(self, discover: Callable[[], HostInventory] = discover_host) -> None:
        self._discover = discover
        self._lock = asyncio.Lock()
        self._last: tuple[float, HostInventory] | None = None

    async def current(self) -> HostInventory:
        """Return what the host is."""
        async with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > INVENTORY_CACHE_S:
                found = await asyncio.to_thread(self._discover)
                self._last = (time.monotonic(), found)
            return self._last[1]
