"""Heartbeats: what an agent runs comes up, what it should run goes down."""

import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agent.protocol import Heartbeat, HeartbeatReply, Refusal
from fabric.agents.domain import MAX_GENERATION
from fabric.agents.models import AccessToken, Agent
from fabric.agents.services.access import note_first_use, renewed_token
from fabric.agents.services.desired import desired_envelope
from fabric.agents.services.enrollment import agent_actor
from fabric.agents.services.refusals import Refused, require_active
from fabric.agents.services.rejoin import lock_agent
from fabric.core.errors import Invalid, NotAllowed, Problem
from fabric.inventory.domain import MAX_BIGINT, clean_text
from fabric.inventory.services import record_host_inventory

logger = logging.getLogger(__name__)

BOOT_CONFLICTS_TO_LOCK = 3
"""How often two processes may report in turn. A report of the old one that was late on its way makes two changes
(there and back); the third is a second copy of the identity.
"""
POLICY_REFUSED = "policy_refused"
_COLUMNS = [
    "heartbeat_seq",
    "boot_id",
    "previous_boot_id",
    "boot_conflicts",
    "started_at",
    "last_heartbeat_at",
    "clock_offset_s",
    "status",
    "agent_version",
    "capabilities",
    "observed_generation",
    "applied_digest",
    "apply_problems",
]


def record_heartbeat(*, agent_id: UUID, token_key_id: str, heartbeat: Heartbeat) -> HeartbeatReply:
    """Store what the agent reports and return what it should know.

    The reply asks for the full state after a gap in the sequence, brings the desired policy where it is newer than
    the observed one, and a new access token where the old one is due. A heartbeat that was stored before is
    answered and has no further effect.

    Raises:
        Refused: the agent is not active, or its identity is in use twice (which locks it).
        NotAllowed: the report is another agent's.
        Invalid: numbers out of range, or an inventory that cannot be one (the rest of the report is kept).
    """
    _require_sane(heartbeat)
    now = timezone.now()
    with transaction.atomic():
        agent = Agent.objects.select_for_update(of=("self",)).get(pk=agent_id)
        token = AccessToken.objects.get(pk=token_key_id)
        require_active(agent)
        if heartbeat.status.agent_id != str(agent.pk):
            raise NotAllowed("An agent reports for itself only.")
        note_first_use(token, now)
        gap = _store(agent, heartbeat, now)
        locked = agent.boot_conflicts >= BOOT_CONFLICTS_TO_LOCK
        if locked:
            lock_agent(agent, "two processes report under this identity in turn: its state directory was copied")
        renewed = None if locked else renewed_token(agent, token, now)
    if locked:
        raise Refused(Refusal.AGENT_LOCKED)
    if heartbeat.inventory is not None:
        _store_inventory(agent, heartbeat)
    newer = agent.desired_generation > agent.observed_generation
    return HeartbeatReply(
        server_time_s=now.timestamp(),
        desired=desired_envelope(agent) if newer else None,
        send_full=gap and (heartbeat.inventory is None or heartbeat.capabilities is None),
        access_token=renewed[0].text if renewed else None,
        access_token_expires_s=renewed[1].timestamp() if renewed else None,
    )


def _require_sane(heartbeat: Heartbeat) -> None:
    """Refuse numbers that no honest agent reaches: they would overflow a column, or leave no generation above them."""
    problems = []
    if heartbeat.seq > MAX_BIGINT:
        problems.append(Problem("seq", "it is out of range", "count heartbeats by one"))
    if heartbeat.status.observed_generation > MAX_GENERATION:
        problems.append(Problem("status.observed_generation", "it is out of range", "report what you were given"))
    if problems:
        raise Invalid("The heartbeat cannot be true.", problems)


def _store(agent: Agent, heartbeat: Heartbeat, now: datetime) -> bool:
    """Put the report into the agent's row; tell whether reports before it are missing."""
    status = heartbeat.status
    boot_id = clean_text(status.boot_id, 64)
    same_boot = boot_id == agent.boot_id
    if same_boot and heartbeat.seq <= agent.heartbeat_seq:
        return False  # stored before: a repeat on the way, or a replay
    if not same_boot:
        in_turn = boot_id == agent.previous_boot_id
        agent.previous_boot_id, agent.boot_id = agent.boot_id, boot_id
        agent.boot_conflicts = agent.boot_conflicts + 1 if in_turn else 0
    gap = not same_boot or heartbeat.seq != agent.heartbeat_seq + 1
    agent.heartbeat_seq = heartbeat.seq
    agent.started_at = _moment(status.started_at_s)
    agent.last_heartbeat_at = now
    agent.clock_offset_s = heartbeat.agent_time_s - now.timestamp()
    agent.status = status.model_dump(mode="json")
    agent.agent_version = clean_text(status.version, 64)
    if heartbeat.capabilities is not None:
        agent.capabilities = heartbeat.capabilities.model_dump(mode="json")
    if not same_boot or status.observed_generation >= agent.observed_generation:
        # A report written before the answer to a push and arriving after it must not undo it.
        agent.observed_generation = status.observed_generation
        agent.applied_digest = status.applied_digest or ""
    agent.apply_problems = _problems_after(agent, heartbeat)
    agent.save(update_fields=_COLUMNS)
    return gap


def _problems_after(agent: Agent, heartbeat: Heartbeat) -> list[dict[str, Any]]:
    """Return why the desired policy is not in force, as far as the agent said so."""
    if agent.observed_generation >= agent.desired_generation:
        return []
    refusals = [c for c in heartbeat.status.conditions if c.type == POLICY_REFUSED and c.status == "true"]
    if not refusals or agent.apply_problems:
        return list(agent.apply_problems)
    return [{"field": "", "problem": c.message[:1000] or c.reason, "remedy": "see the agent's log"} for c in refusals]


def _store_inventory(agent: Agent, heartbeat: Heartbeat) -> None:
    if heartbeat.inventory is None:
        return
    host = record_host_inventory(actor=agent_actor(agent), inventory=heartbeat.inventory)
    Agent.objects.filter(pk=agent.pk).exclude(host=host).update(host=host, updated_at=timezone.now())


def _moment(unix_s: float) -> datetime | None:
    """Return a moment that the agent named, None where no calendar has it."""
    try:
        return datetime.fromtimestamp(unix_s, UTC)
    except (OverflowError, ValueError, OSError):
        return None
