"""What the first start puts in the database and in files, once."""

import json
import uuid
from pathlib import Path

import pytest
from pytest_django import Settings

from fabric.agents.models import Agent, AgentState, JoinToken
from fabric.audit.models import AuditEntry
from fabric.core.actor import SYSTEM
from fabric.inventory.models import Pod, Site
from fabric.launch.processes import agent_state_dir, join_token_file, replay_token_file
from fabric.launch.services import admit_local_agent, register_replay_target, seed_first_objects
from fabric.policies.models import Policy, PoolPolicy, Revision
from fabric.pools.models import Pool
from kvcache.policy import default_policy
from telemetry.models import ScrapeTarget
from telemetry.services import bearer_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _home(settings: Settings, tmp_path: Path) -> None:
    settings.HOME = tmp_path
    settings.SECRETS_DIR = tmp_path / "secrets"


def _identity(agent_id: str) -> None:
    agent_state_dir().mkdir(parents=True)
    (agent_state_dir() / "identity.json").write_text(json.dumps({"agent_id": agent_id}))


def _agent(state: AgentState) -> Agent:
    return Agent.objects.create(name="local", state=state, public_key="k", hostname="h", agent_version="1")


def test_seed_makes_a_pool_that_runs_the_default_policy() -> None:
    assert seed_first_objects(actor=SYSTEM)
    assert Pod.objects.get().site == Site.objects.get()
    row = PoolPolicy.objects.get()
    assert row.pool == Pool.objects.get(name="default", pod=Pod.objects.get())
    assert row.current_revision == Revision.objects.get(policy=row.policy, number=1)
    assert row.current_revision.digest == default_policy().digest()
    assert AuditEntry.objects.filter(actor_kind="system").count() >= 6


def test_seed_happens_once_and_never_over_what_is_there() -> None:
    assert seed_first_objects(actor=SYSTEM)
    assert not seed_first_objects(actor=SYSTEM)
    PoolPolicy.objects.all().delete()
    Pool.objects.all().delete()
    assert not seed_first_objects(actor=SYSTEM), "what an operator removed does not come back"
    assert Policy.objects.count() == 1


def test_local_agent_gets_a_token_for_the_first_pool_in_a_private_file() -> None:
    seed_first_objects(actor=SYSTEM)
    assert admit_local_agent(actor=SYSTEM)
    token = JoinToken.objects.get()
    assert token.pool == Pool.objects.get()
    assert (token.max_uses, token.needs_approval) == (1, False)
    text = join_token_file().read_text()
    assert text.startswith(f"kvj1_{token.token_id}.")
    assert text.strip().rpartition(".")[2] not in token.digest
    assert join_token_file().stat().st_mode & 0o777 == 0o600
    assert join_token_file().parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("state", [AgentState.ACTIVE, AgentState.REVOKED, AgentState.LOCKED])
def test_agent_that_this_database_knows_gets_no_token(state: AgentState) -> None:
    _identity(str(_agent(state).pk))
    assert not admit_local_agent(actor=SYSTEM)
    assert not JoinToken.objects.exists()


def test_agent_of_another_database_joins_this_one() -> None:
    _identity(str(uuid.uuid4()))
    assert admit_local_agent(actor=SYSTEM)


@pytest.mark.parametrize("text", ["", "[]", '{"agent_id": 7}', '{"agent_id": "not a uuid"}', "{"])
def test_identity_that_cannot_be_read_counts_as_none(text: str) -> None:
    agent_state_dir().mkdir(parents=True)
    (agent_state_dir() / "identity.json").write_text(text)
    assert admit_local_agent(actor=SYSTEM)


def test_replay_is_scraped_with_a_secret_of_its_own_and_registered_once() -> None:
    seed_first_objects(actor=SYSTEM)
    register_replay_target()
    token = replay_token_file().read_text().strip()
    register_replay_target()
    target = ScrapeTarget.objects.get()
    assert bearer_of(target) == token == replay_token_file().read_text().strip()
    assert len(token) > 30
    assert target.kind == "replay"
    assert target.pool_id == Pool.objects.get().pk
    assert replay_token_file().stat().st_mode & 0o777 == 0o600
    assert token not in target.bearer_token_encrypted


def test_replay_is_registered_where_the_first_pool_is_gone() -> None:
    register_replay_target()
    assert ScrapeTarget.objects.get().pool_id is None
