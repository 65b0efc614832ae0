"""A small fabric in the database: one of everything that a page can show."""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from fabric.accounts.models import User
from fabric.agents.models import Agent, AgentState
from fabric.agents.services import create_join_token
from fabric.core.actor import Actor, ActorKind, Role
from fabric.inventory.models import Dpu, Host, NetworkInterface, Pod, Site, Source, Ssd, Switch
from fabric.inventory.services import create_dpu, create_pod, create_site, create_switch
from fabric.policies.models import Policy, Revision
from fabric.policies.services import assign_policy, create_policy, set_current_revision, write_revision
from fabric.pools.models import Pool
from fabric.pools.services import create_pool
from fabric.rollouts.models import Rollout
from fabric.rollouts.services import start_rollout
from kvcache.policy import default_policy
from tests.fabric.people import person

OPERATOR = Actor(ActorKind.USER, "", "olga", Role.OPERATOR)
MIB = 1 << 20
CAPABILITIES = {
    "engine": "flash",
    "tiers": ["dram", "flash"],
    "evictions": ["lru", "fifo"],
    "dram_limit_bytes": 16 * MIB,
    "flash_limit_bytes": 64 * MIB,
    "max_value_bytes": MIB,
}


@dataclass
class World:
    """What was made, to build addresses from."""

    site: Site
    pod: Pod
    host: Host
    dpu: Dpu
    ssd: Ssd
    switch: Switch
    pool: Pool
    policy: Policy
    revision: Revision
    agent: Agent
    rollout: Rollout
    join_token: Any
    person: User


def make_agent(pool: Pool | None, name: str, **fields: Any) -> Agent:
    """Make an agent that has just reported."""
    tier = {"stored_bytes": 3 * MIB, "stored_blocks": 48, "capacity_bytes": 4 * MIB, "limit_bytes": 16 * MIB}
    values: dict[str, Any] = {
        "pool": pool,
        "state": AgentState.ACTIVE,
        "public_key": uuid.uuid4().hex,
        "hostname": name,
        "agent_version": "0.1.0",
        "manage_url": "http://127.0.0.1:1",
        "data_url": "redis://127.0.0.1:2",
        "capabilities": CAPABILITIES,
        "last_heartbeat_at": timezone.now(),
        "started_at": timezone.now() - timedelta(hours=3),
        "status": {
            "tiers": [{"tier": "dram", **tier}, {"tier": "flash", **tier}],
            "conditions": [
                {"type": "clock_skew", "status": "true", "reason": "offset", "message": "70 s off", "since_s": 0.0}
            ],
        },
    } | fields
    return Agent.objects.create(name=name, **values)


def make_host(name: str = "gpu-01", pod: Pod | None = None) -> Host:
    """Make a host as discovery would."""
    return Host.objects.create(
        name=name,
        pod=pod,
        source=Source.DISCOVERED,
        source_detail="agent kv-01 via sysfs",
        memory_bytes=1 << 40,
        cpu_threads=128,
        last_seen_at=timezone.now(),
    )


def make_world() -> World:
    """Make one of everything."""
    site = create_site(actor=OPERATOR, name="Frankfurt", slug="fra")
    pod = create_pod(actor=OPERATOR, site_id=site.pk, name="pod-1")
    host = make_host(pod=pod)
    dpu = create_dpu(actor=OPERATOR, name="dpu-1", host_id=host.pk, serial="DPU1")
    ssd = Ssd.objects.create(name="nvme0n1", host=host, dpu=dpu, serial="S1", model="M", capacity_bytes=4 << 40)
    NetworkInterface.objects.create(host=host, name="eth0", kind="physical", mac="02:00:00:00:00:01")
    switch = create_switch(actor=OPERATOR, name="leaf-1", pod_id=pod.pk)
    pool = create_pool(actor=OPERATOR, name="warm", pod_id=pod.pk, description="the warm one")
    policy = create_policy(actor=OPERATOR, name="default")
    document = default_policy().as_dict()
    revision = write_revision(actor=OPERATOR, policy_id=policy.pk, document=document, note="first")
    assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=policy.pk)
    set_current_revision(actor=OPERATOR, pool_id=pool.pk, revision_id=revision.pk)
    agent = make_agent(pool, "kv-01", host=host)
    document["tiers"]["dram"]["capacity"] = {"share": 0.5}
    second = write_revision(actor=OPERATOR, policy_id=policy.pk, document=document, note="more DRAM")
    rollout = start_rollout(actor=OPERATOR, pool_id=pool.pk, revision_id=second.pk, reason="try it")
    token = create_join_token(actor=OPERATOR, name="kv-02", pool_id=pool.pk).token
    somebody = person(Role.VIEWER, "vera")
    return World(site, pod, host, dpu, ssd, switch, pool, policy, revision, agent, rollout, token, somebody)


LISTS = (
    "/agents/",
    "/pools/",
    "/policies/",
    "/rollouts/",
    "/inventory/sites/",
    "/inventory/pods/",
    "/inventory/hosts/",
    "/inventory/dpus/",
    "/inventory/ssds/",
    "/inventory/switches/",
    "/audit/",
)
READ_ALONE = ("/", "/status/", "/search/", "/search/?q=kv", "/account/", *LISTS)
NEW = (
    "/agents/join/",
    "/pools/new/",
    "/policies/new/",
    *(f"/inventory/{name}/new/" for name in ("sites", "pods", "hosts", "dpus", "ssds", "switches")),
)


def read_pages(world: World) -> list[str]:
    """Return every page that any signed-in person may read."""
    policy, rollout = f"/policies/{world.policy.pk}/", f"/rollouts/{world.rollout.pk}/"
    agent, pool = f"/agents/{world.agent.pk}/", f"/pools/{world.pool.pk}/"
    things = [t.get_absolute_url() for t in (world.site, world.pod, world.host, world.dpu, world.ssd, world.switch)]
    parts = [f"{agent}status/", f"{pool}status/", f"{rollout}progress/"]
    return [
        *READ_ALONE,
        agent,
        pool,
        policy,
        f"{policy}revisions/1/",
        f"{policy}revisions/2/",
        rollout,
        *parts,
        *things,
    ]


def write_pages(world: World) -> list[str]:
    """Return every page on which operators change something."""
    things = [t.get_absolute_url() for t in (world.site, world.pod, world.host, world.dpu, world.ssd, world.switch)]
    policy, rollout = f"/policies/{world.policy.pk}/", f"/rollouts/{world.rollout.pk}/"
    agent, pool = f"/agents/{world.agent.pk}/", f"/pools/{world.pool.pk}/"
    return [
        *NEW,
        *(f"{thing}{act}/" for thing in [*things, pool, agent] for act in ("edit", "delete")),
        *(f"{policy}{act}/" for act in ("rename", "delete", "edit", "edit/text")),
        *(f"{rollout}{verb}/" for verb in ("pause", "resume", "abort", "roll_back")),
        *(f"{agent}{verb}/" for verb in ("approve", "unlock", "revoke")),
        f"/agents/join/{world.join_token.pk}/revoke/",
    ]


def admin_pages(world: World) -> list[str]:
    """Return every page that only admins may open."""
    base = f"/people/{world.person.pk}/"
    return ["/people/", "/people/new/", base, f"{base}reset/"]
