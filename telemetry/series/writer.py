"""Between scraper and database: ticks wait here while the database is away; none is lost before the bound."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection

from telemetry.series.store import TickLog, TickRow

logger = logging.getLogger(__name__)

MAX_BUFFERED_BYTES = 64 << 20
MAX_ROWS_PER_COMMIT = 5000
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.5, 5.0


class SeriesWriter:
    """Stores what `put` hands over, in order, one transaction per tick, in a thread of its own."""

    def __init__(self, log: TickLog, max_buffered_bytes: int = MAX_BUFFERED_BYTES) -> None:
        self.dropped_rows = 0
        self.failed_commits = 0
        self.written_rows = 0
        self._log = log
        self._max_bytes = max_buffered_bytes
        self._rows: deque[TickRow] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="series-writer")

    @property
    def buffered_rows(self) -> int:
        """Rows that wait for the database."""
        return len(self._rows)

    def put(self, rows: Sequence[TickRow]) -> None:
        """Hand over a tick's rows; returns at once. Past the bound the oldest rows go, and are counted."""
        self._rows.extend(rows)
        self._bytes += sum(len(row.values) for row in rows)
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._rows.popleft().values)
            self.dropped_rows += 1
        if self._rows:
            self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._rows:
                if await self._write_some():
                    backoff_s = FIRST_BACKOFF_S
                else:
                    await asyncio.sleep(backoff_s)
                    backoff_s = min(LAST_BACKOFF_S, 2 * backoff_s)

    async def close(self, patience_s: float = 5.0) -> None:
        """Try once more to store what is left, then let the thread go."""
        try:
            async with asyncio.timeout(patience_s):
                while self._rows and await self._write_some():
                    pass
        except TimeoutError:
            logger.error("%d rows could not be stored before the end", len(self._rows))
        await asyncio.get_running_loop().run_in_executor(self._thread, _close_connection)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _write_some(self) -> bool:
        batch = [self._rows[i] for i in range(min(len(self._rows), MAX_ROWS_PER_COMMIT))]
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._append, batch)
        except DatabaseError as error:
            if not self.failed_commits or self.failed_commits % 100 == 0:
                logger.warning("ticks cannot be stored, %d rows wait: %s", len(self._rows), error)
            self.failed_commits += 1
            return False
        for row in batch:  # `put` may have dropped some of them meanwhile
            if self._rows and self._rows[0] is row:
                self._bytes -= len(self._rows.popleft().values)
        self.written_rows += len(batch)
        return True

    def _append(self, batch: Sequence[TickRow]) -> None:
        close_old_connections()
        self._log.append(batch)


def _close_connection() -> None:
    connection.close()  # looked up here, in the thread whose connection it is
