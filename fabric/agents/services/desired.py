"""What an agent should run, and what it says it runs. A generation only ever grows and is never used twice."""

import logging
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from agent.protocol import ApplyReply, ApplyState, Desired, Envelope
from fabric.agents.domain import MAX_GENERATION
from fabric.agents.models import Agent
from fabric.agents.services.keys import active_signing_key
from fabric.audit.services import Act, record_many
from fabric.core.actor import Actor
from fabric.core.errors import Invalid, Problem
from kvcache.canonical import sha256_digest

logger = logging.getLogger(__name__)

ENVELOPE_LIFE_S = 600.0
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def set_desired(
    *, actor: Actor, agent_ids: Iterable[UUID], document: Mapping[str, Any], digest: str
) -> dict[UUID, int]:
    """Give each agent this document under a new generation; return the generations. Ids of agents that do not exist
    are left out.

    Runs inside the caller's transaction. Rows are locked in the order of their ids, so that two callers cannot block
    each other; on SQLite, transactions are serialised from their start (`transaction_mode: IMMEDIATE`) and need no
    row locks.

    Raises:
        Invalid: `digest` is not the sha256 of the document's canonical JSON.
    """
    document = dict(document)
    if not _DIGEST.fullmatch(digest) or sha256_digest(document) != digest:
        problem = Problem(
            "digest", "it is not the sha256 of the document's canonical JSON", "send the revision's own digest"
        )
        raise Invalid("Document and digest do not belong together.", [problem])
    with transaction.atomic():
        agents = list(Agent.objects.select_for_update(of=("self",)).filter(pk__in=list(agent_ids)).order_by("pk"))
        now, acts = timezone.now(), []
        for agent in agents:
            before = {"desired_generation": agent.desired_generation, "desired_digest": agent.desired_digest}
            agent.desired_generation = max(agent.desired_generation, agent.observed_generation) + 1
            agent.desired_digest, agent.desired_document = digest, document
            agent.apply_problems, agent.updated_at = [], now
            after = {"desired_generation": agent.desired_generation, "desired_digest": digest}
            acts.append(Act(agent, before, after))
        Agent.objects.bulk_update(
            agents,
            ["desired_generation", "desired_digest", "desired_document", "apply_problems", "updated_at"],
            batch_size=200,
        )
        record_many(actor=actor, verb="set_desired", acts=acts)
    return {agent.pk: agent.desired_generation for agent in agents}


def record_apply_reply(*, agent_id: UUID, generation: int, reply: ApplyReply) -> None:
    """Note what an agent answered to the push of `generation`.

    What it observed never goes backwards here: an answer that arrives late must not undo a newer heartbeat. A refusal
    is kept only while the refused generation is still the desired one.
    """
    if reply.observed_generation > MAX_GENERATION:
        logger.warning("agents.push.implausible agent=%s generation=%d", agent_id, reply.observed_generation)
        return
    now = timezone.now()
    Agent.objects.filter(pk=agent_id, observed_generation__lte=reply.observed_generation).update(
        observed_generation=reply.observed_generation, applied_digest=reply.applied_digest or "", updated_at=now
    )
    if reply.state is ApplyState.REFUSED:
        problems = [problem.model_dump() for problem in reply.problems]
        Agent.objects.filter(pk=agent_id, desired_generation=generation).update(
            apply_problems=problems
            or [{"field": "", "problem": "refused without saying why", "remedy": "see the agent's log"}],
            updated_at=now,
        )
    elif reply.state is ApplyState.APPLIED:
        Agent.objects.filter(
            pk=agent_id, desired_generation=generation, observed_generation__gte=F("desired_generation")
        ).update(apply_problems=[], updated_at=now)


def desired_envelope(agent: Agent) -> Envelope:
    """Return the agent's desired policy, sealed for it alone. Raises `Invalid` when it was never given one."""
    if agent.desired_generation == 0:
        raise Invalid(f"Agent {agent.name} was not given a policy yet.")
    pair, now_s = active_signing_key(), time.time()
    desired = Desired(
        aud=str(agent.pk),
        generation=agent.desired_generation,
        digest=agent.desired_digest,
        document=agent.desired_document,
        nonce=secrets.token_urlsafe(16),
        iat_s=now_s,
        exp_s=now_s + ENVELOPE_LIFE_S,
    )
    return Envelope.seal(desired, pair.private_key, pair.kid)
