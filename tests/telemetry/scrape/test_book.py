"""Rollouts as marks on live charts: each once, on the charts that it concerns, however late its transaction commits."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import sync_to_async

from fabric.agents.models import Agent
from fabric.policies.models import Policy, Revision
from fabric.pools.models import Pool
from fabric.rollouts.models import Rollout, RolloutTarget
from telemetry.live.frames import Mark
from telemetry.scrape import book as book_module
from telemetry.scrape.book import TargetBook
from tests.telemetry.exposition import until
from tests.telemetry.test_targets import an_agent

pytestmark = pytest.mark.django_db(transaction=True)


def a_rollout(pool: Pool, *agents: Agent) -> Rollout:
    number = Revision.objects.count() + 1
    policy, _ = Policy.objects.get_or_create(name="default")
    revision = Revision.objects.create(policy=policy, number=number, document={}, digest=f"sha256:{number:064x}")
    rollout = Rollout.objects.create(
        pool=pool, revision=revision, started_by="vera", last_progress_at=datetime.now(UTC)
    )
    for agent in agents:
        RolloutTarget.objects.create(rollout=rollout, agent=agent, generation=number, digest=revision.digest)
    return rollout


@pytest.fixture
def fleet(transactional_db: None) -> tuple[Pool, Pool, Agent, Agent]:
    east, west = Pool.objects.create(name="east"), Pool.objects.create(name="west")
    return east, west, an_agent("alpha", pool=east), an_agent("beta", pool=west)


async def test_marks_of_rollouts_come_once_and_say_whom_they_concern(
    fleet: tuple[Pool, Pool, Agent, Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book_module, "MARKS_EVERY_S", 0.05)
    monkeypatch.setattr(book_module, "REFRESH_EVERY_S", 0.05)
    east, west, alpha, _ = fleet
    await sync_to_async(a_rollout)(west)  # before the book was opened: not its business
    book = TargetBook()
    await book.refresh()
    assert {target.name for target in book.inventory.targets} == {"alpha", "beta"}
    running = asyncio.create_task(book.run())
    taken: list[Mark] = []

    def take() -> int:
        taken.extend(book.take_marks())
        return len(taken)

    rollout = await sync_to_async(a_rollout)(east, alpha)
    await until(lambda: take() >= 1)
    await RolloutTarget.objects.aupdate(state="in_sync", ended_at=datetime.now(UTC))
    await until(lambda: take() >= 2)
    await Rollout.objects.filter(pk=rollout.pk).aupdate(state="succeeded", ended_at=datetime.now(UTC))
    await until(lambda: take() >= 3)
    await asyncio.sleep(0.3)
    take()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await book.close()
    mine = [mark for mark in taken if mark.pool_id == east.pk]
    assert [(m.kind, m.agent_id) for m in mine] == [
        ("rollout_started", None), ("rollout_agent_in_sync", alpha.pk), ("rollout_succeeded", None)
    ]  # fmt: skip
    assert all(mark.url == rollout.get_absolute_url() for mark in mine)


async def test_mark_that_commits_late_is_not_lost(fleet: tuple[Pool, Pool, Agent, Agent]) -> None:
    east, _, alpha, _ = fleet
    book = TargetBook()
    book._born_at -= timedelta(minutes=1)
    await book.refresh()
    assert await sync_to_async(book._new_marks)() == []
    rollout = await sync_to_async(a_rollout)(east, alpha)
    await Rollout.objects.filter(pk=rollout.pk).aupdate(created_at=datetime.now(UTC) - timedelta(seconds=20))
    assert [mark.kind for mark in await sync_to_async(book._new_marks)()] == ["rollout_started"]
    assert await sync_to_async(book._new_marks)() == []
    await book.close()
