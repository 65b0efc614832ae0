"""What waits for the database is bounded, kept in order, and counted when it has to go."""

import asyncio
from collections.abc import Sequence

import pytest
from django.db import OperationalError

from telemetry.series.store import LayoutKey, SourceKey, TickLog, TickRow
from telemetry.series.writer import SeriesWriter
from tests.telemetry.exposition import until


class Log(TickLog):
    """A log whose database can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.stored: list[int] = []

    def append(self, rows: Sequence[TickRow]) -> None:
        if self.away:
            raise OperationalError("away")
        self.stored += [row.at_ms for row in rows]


def rows(*times: int) -> list[TickRow]:
    return [TickRow(SourceKey("a", "a", "agent"), at, LayoutKey("d", ()), b"x" * 100) for at in times]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry.series.writer.FIRST_BACKOFF_S", 0.01)
    monkeypatch.setattr("telemetry.series.writer.close_old_connections", lambda: None)
    monkeypatch.setattr("telemetry.series.writer._close_connection", lambda: None)


async def test_rows_are_stored_in_order_once_the_database_is_back() -> None:
    log = Log()
    writer = SeriesWriter(log)
    task = asyncio.create_task(writer.run())
    log.away = True
    for at in range(10):
        writer.put(rows(at))
        await asyncio.sleep(0.005)
    assert writer.buffered_rows == 10
    log.away = False
    await until(lambda: writer.buffered_rows == 0)
    assert log.stored == list(range(10))
    assert writer.failed_commits >= 1
    task.cancel()
    await writer.close()


async def test_past_the_bound_the_oldest_go_and_are_counted() -> None:
    log = Log()
    log.away = True
    writer = SeriesWriter(log, max_buffered_bytes=1000)
    task = asyncio.create_task(writer.run())
    for at in range(25):
        writer.put(rows(at))
        await asyncio.sleep(0)
    assert (writer.buffered_rows, writer.dropped_rows) == (10, 15)
    log.away = False
    await until(lambda: writer.buffered_rows == 0)
    assert log.stored == list(range(15, 25))
    task.cancel()
    await writer.close()


async def test_close_stores_what_is_left_and_gives_up_in_time() -> None:
    log = Log()
    writer = SeriesWriter(log)
    writer.put(rows(1, 2))
    await writer.close()
    assert log.stored == [1, 2]
    log.away = True
    stuck = SeriesWriter(log)
    stuck.put(rows(3))
    await asyncio.wait_for(stuck.close(patience_s=0.2), 2)
    assert stuck.buffered_rows == 1
