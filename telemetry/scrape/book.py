"""The scraper's view of the database: what to scrape, what rollouts did. Without an answer the last one stands."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection

from fabric.rollouts.selectors import Mark as RolloutMark
from fabric.rollouts.selectors import rollout_marks
from telemetry.live.frames import Mark
from telemetry.targets import Inventory, load_inventory

logger = logging.getLogger(__name__)
T = TypeVar("T")

REFRESH_EVERY_S = 2.0
MARKS_EVERY_S = 1.0
MARK_OVERLAP = timedelta(seconds=30)
"""How far back marks are looked for again: a transaction that commits late must not lose its mark."""


class TargetBook:
    """Refreshes the inventory and collects marks in a thread of its own, so that a slow database stalls nothing."""

    def __init__(self, load: Callable[[], Inventory] = load_inventory) -> None:
        self.inventory = Inventory()
        self.faults: Counter[str] = Counter()
        self._load = load
        self._marks: list[Mark] = []
        self._seen: set[RolloutMark] = set()
        self._born_at = self._polled_at = datetime.now(UTC)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="target-book")

    def take_marks(self) -> list[Mark]:
        """Return the marks that are new since the last call."""
        taken, self._marks = self._marks, []
        return taken

    async def refresh(self) -> None:
        """Read once; a database that does not answer leaves everything as it was."""
        try:
            self.inventory = await self._in_thread(self._load)
        except DatabaseError as error:
            self.faults["inventory_unreadable"] += 1
            logger.warning("targets cannot be read, keeping %d: %s", len(self.inventory.targets), error)

    async def run(self) -> None:
        """Refresh targets every 2 s and marks every second until cancelled."""
        refresh_every = round(REFRESH_EVERY_S / MARKS_EVERY_S)
        turn = 0
        while True:
            await asyncio.sleep(MARKS_EVERY_S)
            turn += 1
            if turn % refresh_every == 0:
                await self.refresh()
            try:
                self._marks += await self._in_thread(self._new_marks)
            except DatabaseError as error:
                self.faults["marks_unreadable"] += 1
                logger.warning("marks of rollouts cannot be read: %s", error)

    async def close(self) -> None:
        """Close the thread's database connection."""
        await self._in_thread(lambda: connection.close())
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        def run() -> T:
            close_old_connections()
            return call()

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _new_marks(self) -> list[Mark]:
        now = datetime.now(UTC)
        since = max(self._born_at, self._polled_at - MARK_OVERLAP)
        fresh = [mark for mark in rollout_marks(since) if mark not in self._seen]
        pools, agents = self._owners(since, fresh)
        self._seen = {mark for mark in self._seen if mark.at > since} | set(fresh)
        self._polled_at = now
        return [
            Mark(m.at.timestamp(), m.kind, m.label, m.url, pool_id=pools.get(m), agent_id=agents.get(m)) for m in fresh
        ]

    def _owners(
        self, since: datetime, fresh: list[RolloutMark]
    ) -> tuple[dict[RolloutMark, UUID], dict[RolloutMark, UUID]]:
        """Return which pool each mark concerns, and which agent those of a single one do. Asked only when some came."""
        pools: dict[RolloutMark, UUID] = {}
        agents: dict[RolloutMark, UUID] = {}
        if fresh:
            for pool_id in self.inventory.pool_ids:
                pools |= dict.fromkeys(rollout_marks(since, pool_id=pool_id), pool_id)
        if any(mark.kind == "rollout_agent_in_sync" for mark in fresh):
            for target in self.inventory.targets:
                if target.agent_id and target.is_agent:
                    found = rollout_marks(since, agent_id=target.agent_id)
                    agents |= {m: target.agent_id for m in found if m.kind == "rollout_agent_in_sync"}
        return pools, agents
