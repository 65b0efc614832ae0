"""A pool of agents whose management side is the real one (`agent.runtime`), reached by a call where production has
HTTP.

What the agent does with generations, digests and refusals is therefore the agent's own code; only the wire is left
out (the chaos test has it).
"""

import threading
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.utils import timezone

from agent.config import AgentConfig
from agent.protocol import ApplyReply, Desired
from agent.runtime import AgentRuntime
from fabric.agents.client import AgentUnreachable
from fabric.agents.models import Agent, AgentState
from fabric.core.actor import Actor, ActorKind, Role
from fabric.policies.models import Revision
from fabric.policies.services import create_policy, write_revision
from fabric.pools.models import Pool
from fabric.rollouts.models import RolloutTarget
from kvcache.policy import ResolvedPolicy

OPERATOR = Actor(ActorKind.USER, "", "olga", Role.OPERATOR)
VIEWER = Actor(ActorKind.USER, "", "vera", Role.VIEWER)
MIB = 1 << 20
DRAM_LIMIT_BYTES = 16 * MIB
FLASH_LIMIT_BYTES = 64 * MIB


class NoStore:
    """A store that obeys policies and holds nothing."""

    def __init__(self, policy: ResolvedPolicy) -> None:
        self.policy = policy

    def apply_policy(self, policy: ResolvedPolicy) -> None:
        self.policy = policy

    def tier_snapshots(self) -> tuple[()]:
        return ()

    def conditions(self) -> tuple[()]:
        return ()

    def stats_snapshot(self) -> Any:
        raise NotImplementedError


@dataclass
class Machine:
    """One storage agent: its runtime, and how many policies it has really applied over all its lives."""

    state_dir: Path
    runtime: AgentRuntime = field(init=False)
    up: bool = True
    applied: list[int] = field(default_factory=list)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.state_dir.mkdir(parents=True)
        self.start()

    def start(self) -> None:
        """Start it (again), with what its state directory holds."""
        config = AgentConfig(
            state_dir=self.state_dir, dram_limit_bytes=DRAM_LIMIT_BYTES, flash_limit_bytes=FLASH_LIMIT_BYTES
        )
        self.runtime = AgentRuntime(config, NoStore)
        self.up = True

    def take(self, desired: Desired) -> ApplyReply:
        """Do what the management API does with an envelope that it believes."""
        with self._counting:
            before = self.runtime.observed_generation
            reply = self.runtime.apply_desired(desired)
            if self.runtime.observed_generation != before:
                self.applied.append(self.runtime.observed_generation)
        return reply


class Fleet:
    """The machines behind the agents' rows, and the two ways in which a policy reaches them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.machines: dict[uuid.UUID, Machine] = {}
        self.pushes: list[tuple[uuid.UUID, int]] = []

    def pool(self, name: str = "pool-a", agents: int = 2) -> Pool:
        """Make a pool with `agents` active agents that have just reported."""
        pool = Pool.objects.create(name=name)
        for number in range(agents):
            self.agent(pool, f"{name}-agent-{number}")
        return pool

    def agent(self, pool: Pool | None, name: str, **fields: Any) -> Agent:
        """Make one agent, active and in touch unless `fields` say otherwise."""
        identity = uuid.uuid4()
        machine = Machine(self._directory / str(identity))
        values: dict[str, Any] = {
            "pool": pool,
            "state": AgentState.ACTIVE,
            "public_key": identity.hex,
            "hostname": name,
            "agent_version": "0.1.0",
            "manage_url": "http://127.0.0.1:1",
            "data_url": "redis://127.0.0.1:1",
            "capabilities": machine.runtime.capabilities().model_dump(mode="json"),
            "last_heartbeat_at": timezone.now(),
        } | fields
        self.machines[identity] = machine
        return Agent.objects.create(id=identity, name=name, **values)

    def of(self, agent: Agent) -> Machine:
        """Return the machine behind an agent's row."""
        return self.machines[agent.pk]

    def push(self, agent: Agent) -> ApplyReply:
        """Stand where `fabric.agents.client.push_desired` stands: deliver what the given row says."""
        self.pushes.append((agent.pk, agent.desired_generation))
        machine = self.machines[agent.pk]
        if not machine.up:
            raise AgentUnreachable("connect-failed", "nothing listens at its management port")
        return machine.take(_desired(agent))

    def heartbeat(self, *agents: Agent, deliver: bool = True, at: datetime | None = None) -> None:
        """Let agents (default: all that are up) report, and take what the reply carries, as often as it takes to
        settle.
        """
        for agent in agents or [Agent.objects.get(pk=pk) for pk in self.machines]:
            machine = self.machines[agent.pk]
            if not machine.up:
                continue
            row = Agent.objects.get(pk=agent.pk)
            if deliver and row.desired_generation > machine.runtime.observed_generation:
                machine.take(_desired(row))
            Agent.objects.filter(pk=agent.pk).update(
                observed_generation=machine.runtime.observed_generation,
                applied_digest=machine.runtime.applied_digest or "",
                last_heartbeat_at=at or timezone.now(),
            )


def _desired(agent: Agent) -> Desired:
    return Desired(
        aud=str(agent.pk),
        generation=agent.desired_generation,
        digest=agent.desired_digest,
        document=agent.desired_document,
        nonce=uuid.uuid4().hex,
        iat_s=0,
        exp_s=2**40,
    )


def document(dram_share: float = 0.25, **dram: Any) -> dict[str, Any]:
    """Return a policy document that differs by the given DRAM fields."""
    return {"version": "fabric/v1", "tiers": {"dram": {"capacity": {"share": dram_share}, **dram}}}


def revision(dram_share: float = 0.25, policy: str = "default", **dram: Any) -> Revision:
    """Write a revision through the service; the policy is made at first use."""
    existing = Revision.objects.filter(policy__name=policy).first()
    row = existing.policy if existing else create_policy(actor=OPERATOR, name=policy)
    return write_revision(actor=OPERATOR, policy_id=row.pk, document=document(dram_share, **dram))


def states(rollout: Any) -> list[str]:
    """Return the target states of a rollout by agent name."""
    return list(RolloutTarget.objects.filter(rollout=rollout).order_by("agent__name").values_list("state", flat=True))
