"""What is scraped: active agents with grants that they accept, registered targets with their tokens; the commands."""

import time
from io import StringIO
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.cache import cache
from django.core.management import CommandError, call_command

from agent.protocol import Envelope, public_key_text
from fabric.agents.models import Agent
from fabric.agents.services import control_plane_keys
from fabric.core.actor import SYSTEM, Actor, ActorKind, Role
from fabric.core.errors import NotAllowed, NotFound
from fabric.pools.models import Pool
from telemetry.domain import OVERVIEW, Topic, TopicKind, parse_topic
from telemetry.models import ScrapeTarget, Source
from telemetry.selectors import check_topic, scrape_targets_for_list, sources_for_topic, visible_topics
from telemetry.services import register_target, remove_target
from telemetry.targets import load_inventory

pytestmark = pytest.mark.django_db
VIEWER = Actor(ActorKind.USER, str(uuid4()), "vera", Role.VIEWER)


@pytest.fixture(autouse=True)
def _no_kept_grants() -> None:
    cache.clear()


def an_agent(name: str, *, pool: Pool | None = None, state: str = "active") -> Agent:
    return Agent.objects.create(
        name=name,
        pool=pool,
        state=state,
        public_key=public_key_text(Ed25519PrivateKey.generate()),
        hostname=name,
        agent_version="1",
        manage_url="http://127.0.0.1:6401/",
        data_url="redis://127.0.0.1:6400",
    )


def test_inventory_holds_active_agents_with_a_grant_that_they_would_accept() -> None:
    pool = Pool.objects.create(name="p")
    agent = an_agent("alpha", pool=pool)
    for state in ("pending", "locked", "denied", "revoked"):
        an_agent(state, state=state)
    inventory = load_inventory()
    (target,) = inventory.targets
    assert (target.name, target.url, target.pool_id) == ("alpha", "http://127.0.0.1:6401/metrics", pool.pk)
    assert target.page_url == agent.get_absolute_url()
    assert inventory.pool_ids == (pool.pk,)
    grant = Envelope.from_bearer(target.bearer).open_grant(
        keys=control_plane_keys(), audience=str(agent.pk), now_s=time.time()
    )
    assert grant.exp_s > time.time() + 60
    assert target.bearer not in repr(target)


def test_inventory_holds_enabled_targets_with_their_token_in_clear_for_the_scraper_alone() -> None:
    agent = an_agent("alpha", pool=Pool.objects.create(name="p"))
    url = "http://127.0.0.1:8401/metrics"
    register_target(actor=SYSTEM, name="replay", kind="replay", url=url, bearer_token="s3cret", agent_id=agent.pk)
    register_target(actor=SYSTEM, name="off", kind="vllm", url="http://127.0.0.1:1/", enabled=False)
    by_name = {target.name: target for target in load_inventory().targets}
    assert set(by_name) == {"alpha", "replay"}
    assert by_name["replay"].bearer == "s3cret"
    assert by_name["replay"].pool_id == agent.pool_id, "an agent's target counts in its pool"
    assert "s3cret" not in ScrapeTarget.objects.get(name="replay").bearer_token_encrypted


def test_inventory_token_that_cannot_be_opened_is_that_targets_problem_alone() -> None:
    register_target(actor=SYSTEM, name="good", kind="vllm", url="http://127.0.0.1:1/", bearer_token="t")
    bad = register_target(actor=SYSTEM, name="bad", kind="vllm", url="http://127.0.0.1:2/", bearer_token="t")
    good = ScrapeTarget.objects.get(name="good")
    ScrapeTarget.objects.filter(pk=bad.pk).update(bearer_token_encrypted=good.bearer_token_encrypted)  # another row's
    problems = {target.name: target.problem for target in load_inventory().targets}
    assert problems == {"bad": "credentials_unreadable", "good": ""}


def test_only_operators_register_and_remove() -> None:
    with pytest.raises(NotAllowed):
        register_target(actor=VIEWER, name="x", kind="vllm", url="http://127.0.0.1:1/")
    with pytest.raises(NotAllowed):
        remove_target(actor=VIEWER, target_id=uuid4())
    with pytest.raises(NotFound):
        remove_target(actor=SYSTEM, target_id=uuid4())
    register_target(actor=SYSTEM, name="x", kind="vllm", url="http://127.0.0.1:1/")
    assert scrape_targets_for_list(SYSTEM).count() == 1
    assert scrape_targets_for_list(VIEWER).count() == 0


def test_topics_are_visible_when_their_object_exists() -> None:
    pool = Pool.objects.create(name="p")
    agent = an_agent("alpha", pool=pool)
    there = {OVERVIEW, Topic(TopicKind.POOL, pool.pk), Topic(TopicKind.AGENT, agent.pk)}
    gone = {Topic(TopicKind.POOL, agent.pk), Topic(TopicKind.AGENT, uuid4())}
    assert visible_topics(VIEWER, there | gone) == there
    with pytest.raises(NotFound):
        check_topic(VIEWER, Topic(TopicKind.AGENT, uuid4()))
    Source.objects.create(key="agent:a", name="a", kind="agent", agent_id=agent.pk, pool_id=pool.pk)
    Source.objects.create(key="target:b", name="b", kind="replay")
    assert [sources_for_topic(VIEWER, topic).count() for topic in (OVERVIEW, *sorted(there - {OVERVIEW}, key=str))] == [
        2,
        1,
        1,
    ]


@pytest.mark.parametrize(
    "text", ["", "Overview", "overview:", "pool", "pool:", "agent:x", "pool:" + "0" * 36, f"tenant:{UUID(int=1)}"]
)
def test_parse_topic_refuses_what_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_topic(text)


def test_register_target_command_reads_the_token_from_a_file_and_may_be_repeated(tmp_path: Path) -> None:
    pool = Pool.objects.create(name="p")
    file = tmp_path / "token"
    file.write_text("tok\n")
    arguments = [
        "replay",
        "--kind",
        "replay",
        "--url",
        "http://127.0.0.1:8401/metrics",
        "--token-file",
        str(file),
        "--pool",
        "p",
    ]
    for _ in range(2):
        call_command("register_target", *arguments, stdout=(out := StringIO()))
    assert "registered" in out.getvalue()
    target = ScrapeTarget.objects.get()
    assert target.pool == pool
    assert load_inventory().targets[0].bearer == "tok"


def test_register_target_command_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="url: no http or https address"):
        call_command("register_target", "x", "--kind", "vllm", "--url", "nonsense")
    with pytest.raises(CommandError, match="cannot be read"):
        call_command(
            "register_target", "x", "--kind", "vllm", "--url", "http://a/", "--token-file", str(tmp_path / "no")
        )
    with pytest.raises(CommandError, match="no pool named"):
        call_command("register_target", "x", "--kind", "vllm", "--url", "http://a/", "--pool", "no")
