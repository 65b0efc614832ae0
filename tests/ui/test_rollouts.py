"""A rollout's page: what moves, why it does not, and the verbs as buttons."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from fabric.agents.models import Agent
from fabric.audit.models import AuditEntry
from fabric.rollouts.domain import TRANSITIONS, RolloutState, Verb
from fabric.rollouts.models import Rollout, RolloutTarget
from tests.ui.html import Document
from tests.ui.world import World

LABELS = {Verb.PAUSE: "Pause", Verb.RESUME: "Resume", Verb.ABORT: "Abort", Verb.ROLL_BACK: "Roll back"}


def _page(client: Client, rollout: Rollout) -> Document:
    return Document(client.get(rollout.get_absolute_url()).content.decode())


def _state(page: Document) -> list[str]:
    return [e.attrs["data-rollout-state"] for e in page.elements if "data-rollout-state" in e.attrs]


def test_page_shows_targets_with_generations_and_progress(viewer: Client, world: World) -> None:
    page = _page(viewer, world.rollout)
    assert _state(page) == ["running"]
    assert "0 of 1 agents in sync" in page.source
    progress = next(e for e in page.all("progress") if e.attrs.get("aria-label") == "Agents in sync")
    assert (progress.attrs["value"], progress.attrs["max"]) == ("0", "1")
    target = world.rollout.targets.get()
    cells = [[td.text.strip() for td in page.all("td") if td.parent is row] for row in page.all("tr")]
    mine = next(row for row in cells if row and row[0] == "kv-01")
    assert mine[1:4] == ["pending", str(target.generation), "0"]
    assert "tiers.dram.capacity.share" in page.source, "what changes against what ran before"


@pytest.mark.parametrize("state", list(RolloutState))
def test_buttons_are_exactly_the_verbs_that_the_table_allows(
    operator: Client, world: World, state: RolloutState
) -> None:
    Rollout.objects.filter(pk=world.rollout.pk).update(state=state.value)
    words = {e.text.strip() for e in _page(operator, world.rollout).all("a", "button")}
    assert {verb for verb, label in LABELS.items() if label in words} == set(TRANSITIONS[state])


def test_pause_and_resume_are_one_press_each(operator: Client, world: World) -> None:
    base = world.rollout.get_absolute_url()
    assert operator.post(f"{base}pause/", {"reason": ""})["Location"] == base
    assert _state(_page(operator, world.rollout)) == ["paused"]
    assert "Resume the rollout, or abort it." in _page(operator, world.rollout).source
    operator.post(f"{base}resume/", {"reason": ""})
    assert _state(_page(operator, world.rollout)) == ["running"]


def test_abort_keeps_the_reason_and_a_second_one_is_refused_with_a_message(operator: Client, world: World) -> None:
    base = world.rollout.get_absolute_url()
    operator.post(f"{base}abort/", {"reason": "wrong pool"})
    assert AuditEntry.objects.filter(verb="abort", reason="wrong pool").exists()
    again = operator.post(f"{base}abort/", {"reason": ""}, follow=True)
    assert "abort is not possible" in again.content.decode()


def test_roll_back_leads_to_the_new_rollout(operator: Client, world: World) -> None:
    base = world.rollout.get_absolute_url()
    operator.post(f"{base}abort/", {"reason": ""})
    response = operator.post(f"{base}roll_back/", {"reason": "slower"})
    new = Rollout.objects.get(rolls_back=world.rollout)
    assert response["Location"] == new.get_absolute_url()
    assert "rolls back an earlier rollout" in _page(operator, new).source


def test_unknown_verb_is_404(operator: Client, world: World) -> None:
    assert operator.post(f"{world.rollout.get_absolute_url()}explode/", {}).status_code == 404


def test_silent_agent_is_named_with_what_unblocks_it(viewer: Client, world: World) -> None:
    Agent.objects.update(last_heartbeat_at=timezone.now() - timedelta(minutes=5))
    text = _page(viewer, world.rollout).source
    assert "1 agent does not move" in text
    assert "unreachable" in text
    assert "Start the agent, or repair the network to its management port." in text


def test_refusal_is_shown_field_by_field(viewer: Client, world: World) -> None:
    problem = {"field": "tiers.dram.eviction", "problem": "it cannot evict by fifo", "remedy": "it can do lru"}
    RolloutTarget.objects.update(
        state="refused",
        reason_code="refused",
        reason="the agent refused it",
        reason_since=timezone.now(),
        problems=[problem],
    )
    text = _page(viewer, world.rollout).source
    assert "tiers.dram.eviction" in text
    assert "it cannot evict by fifo" in text


def test_moving_part_is_sent_only_when_it_has_changed(viewer: Client, world: World) -> None:
    page = _page(viewer, world.rollout)
    poll = next(e.attrs for e in page.elements if "hx-get" in e.attrs)
    assert poll["hx-trigger"] == "every 1s"
    assert viewer.get(poll["hx-get"]).status_code == 204
    RolloutTarget.objects.update(state="in_sync")
    changed = viewer.get(poll["hx-get"])
    assert changed.status_code == 200
    assert "in sync" in changed.content.decode()
    assert "<html" not in changed.content.decode()


def test_ended_rollout_polls_no_more(viewer: Client, world: World) -> None:
    Rollout.objects.update(state="succeeded", ended_at=timezone.now())
    assert "hx-get" not in _page(viewer, world.rollout).source


@pytest.mark.parametrize("thing", ["agent", "pool", "overview"])
def test_parts_of_open_pages_change_with_what_they_show(viewer: Client, world: World, thing: str) -> None:
    path = {"agent": world.agent.get_absolute_url(), "pool": world.pool.get_absolute_url(), "overview": "/"}[thing]
    page = Document(viewer.get(path).content.decode())
    poll = next(e.attrs["hx-get"] for e in page.elements if "hx-get" in e.attrs)
    assert viewer.get(poll).status_code == 204
    agent = world.agent
    Agent.objects.update(observed_generation=Agent.objects.get(pk=agent.pk).desired_generation)
    Agent.objects.update(applied_digest=Agent.objects.get(pk=agent.pk).desired_digest)
    changed = viewer.get(poll)
    assert changed.status_code == 200
    if thing != "pool":
        assert "in sync" in changed.content.decode()


def test_in_sync_is_never_shown_for_a_silent_agent(viewer: Client, world: World) -> None:
    agent = Agent.objects.get(pk=world.agent.pk)
    Agent.objects.update(
        observed_generation=agent.desired_generation,
        applied_digest=agent.desired_digest,
        last_heartbeat_at=timezone.now() - timedelta(minutes=5),
    )
    for path in ("/status/", "/agents/", agent.get_absolute_url()):
        text = viewer.get(path).content.decode()
        assert "in sync" not in text, path
        assert "unreachable" in text, path
