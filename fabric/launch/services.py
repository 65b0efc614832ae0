"""Writes of the first start: the objects without which nothing runs, and how the local agent and the replay join."""

import json
import os
import secrets
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.core.management import call_command
from django.db import transaction

from fabric.agents.models import Agent
from fabric.agents.services import create_join_token
from fabric.core.actor import Actor
from fabric.inventory.models import Site
from fabric.inventory.services import create_pod, create_site
from fabric.launch.processes import AGENT_NAME, LOOPBACK, agent_state_dir, join_token_file, replay_token_file
from fabric.policies.models import Policy
from fabric.policies.services import assign_policy, create_policy, set_current_revision, write_revision
from fabric.pools.models import Pool
from fabric.pools.services import create_pool
from kvcache.policy import default_policy

SITE_NAME = "local"
POD_NAME = "pod-1"
POOL_NAME = "default"
POLICY_NAME = "default"
TARGET_NAME = "replay"
REASON = "first start"


def seed_first_objects(*, actor: Actor) -> bool:
    """Make a first site, pod, pool and policy where there is none of them; tell whether they were made.

    The policy's first revision is the default one, and the pool's current one: each agent that joins is given it.
    """
    with transaction.atomic():
        if Site.objects.exists() or Pool.objects.exists() or Policy.objects.exists():
            return False
        site = create_site(actor=actor, name=SITE_NAME, slug=SITE_NAME)
        pod = create_pod(actor=actor, site_id=site.pk, name=POD_NAME)
        pool = create_pool(actor=actor, name=POOL_NAME, pod_id=pod.pk)
        policy = create_policy(actor=actor, name=POLICY_NAME, description="What every pool starts with.")
        revision = write_revision(actor=actor, policy_id=policy.pk, document=default_policy().as_dict(), note=REASON)
        assign_policy(actor=actor, pool_id=pool.pk, policy_id=policy.pk, reason=REASON)
        set_current_revision(actor=actor, pool_id=pool.pk, revision_id=revision.pk)
    return True


def admit_local_agent(*, actor: Actor) -> bool:
    """Give the local agent a join token, in a file of its own, unless it has joined this database; tell whether it did.

    It then enrols through the same door as any other agent, and deletes the file.
    """
    if _has_joined():
        return False
    pool = Pool.objects.filter(name=POOL_NAME).first() or Pool.objects.order_by("created_at").first()
    minted = create_join_token(actor=actor, name=AGENT_NAME, pool_id=pool.pk if pool else None)
    _write_private(join_token_file(), minted.text)
    return True


def register_replay_target() -> None:
    """Have the scraper read the replay client's metrics, with a bearer token that only the two share."""
    path = replay_token_file()
    if not path.exists():
        _write_private(path, secrets.token_urlsafe(32))
    url = f"http://{LOOPBACK}:{settings.ENV.replay_metrics_port}/metrics"
    arguments = [TARGET_NAME, "--kind", "replay", "--url", url, "--token-file", str(path)]
    if Pool.objects.filter(name=POOL_NAME).exists():
        arguments += ["--pool", POOL_NAME]
    with open(os.devnull, "w") as nowhere:
        call_command("register_target", *arguments, stdout=nowhere)


def _has_joined() -> bool:
    """Tell whether the local agent's identity is one that this database knows. A revoked one stays out."""
    try:
        agent_id = UUID(str(json.loads((agent_state_dir() / "identity.json").read_bytes())["agent_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return Agent.objects.filter(pk=agent_id).exists()


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    os.replace(temporary, path)
