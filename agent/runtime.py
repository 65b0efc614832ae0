"""What the management side may ask of the running agent: the policy it obeys, its status, its numbers.

`AgentRuntime` is made by `agent.service` and used by `agent.manage`. Every method may be called from any thread.
"""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from agent.config import AgentConfig, write_private_file
from agent.protocol import ApplyReply, ApplyState, Capabilities, Condition, Desired, FieldProblem, Status, TierUsage
from agent.stats import StatsSnapshot, TierSnapshot
from kvcache.canonical import canonical_json
from kvcache.eviction import ORDERS
from kvcache.policy import (
    PolicyDocument,
    PolicyError,
    ResolvedPolicy,
    TierLimits,
    default_policy,
    parse_policy,
    resolve,
)

AGENT_VERSION = "0.1.0"
ENGINE_NAME = "flash"
POLICY_FILE = "policy.json"

logger = logging.getLogger("agent.runtime")


class Store(Protocol):
    """The part of `agent.tiers.TieredStore` that is steered from here."""

    def apply_policy(self, policy: ResolvedPolicy) -> None:
        """Obey `policy` from now on; space above a smaller capacity is given back in the background."""

    def tier_snapshots(self) -> tuple[TierSnapshot, ...]:
        """Return what each tier stores now."""

    def conditions(self) -> tuple[Condition, ...]:
        """Return what an operator should know about the devices."""

    def stats_snapshot(self) -> StatsSnapshot:
        """Return all counters and gauges at this moment."""


class AgentRuntime:
    """The agent as the management side sees it.

    Attributes:
        config: the settings it was started with.
        boot_id: new at every start; a change means restart.
        started_at_s: unix time of the start.
    """

    def __init__(self, config: AgentConfig, store_for: Callable[[ResolvedPolicy], Store]) -> None:
        """Load the last good policy (else the default one) and make the store that obeys it."""
        self.config = config
        self.boot_id = uuid.uuid4().hex
        self.started_at_s = time.time()
        self._lock = threading.Lock()
        self._limits = TierLimits(int(config.dram_limit_bytes), int(config.flash_limit_bytes))
        self._path = config.state_dir / POLICY_FILE
        self._generation, self._document, resolved = _load_policy(self._path, self._limits)
        self._not_ready: str | None = "starting"
        self._policy_applied = 0
        self._store = store_for(resolved)

    @property
    def store(self) -> Store:
        """The store that obeys the policy."""
        return self._store

    @property
    def observed_generation(self) -> int:
        """Generation of the policy in force; 0 until the control plane has pushed one."""
        return self._generation

    @property
    def applied_digest(self) -> str | None:
        """Digest of the pushed policy in force; None while the default one runs."""
        return self._document.digest() if self._generation else None

    @property
    def policy(self) -> PolicyDocument:
        """The policy in force."""
        return self._document

    def set_ready(self, reason: str | None = None) -> None:
        """Declare the data plane ready (None), or not and why (one word: starting, draining)."""
        self._not_ready = reason

    def ready(self) -> tuple[bool, str]:
        """Tell whether clients are served now, and if not, why in one word."""
        return (self._not_ready is None, self._not_ready or "ready")

    def capabilities(self) -> Capabilities:
        """What this agent can enforce; a policy that asks for more is refused."""
        tiers: list[Any] = [
            name for name, limit in (("dram", self._limits.dram_bytes), ("flash", self._limits.flash_bytes)) if limit
        ]
        return Capabilities(
            engine=ENGINE_NAME,
            tiers=tiers,
            evictions=sorted(ORDERS),
            dram_limit_bytes=self._limits.dram_bytes,
            flash_limit_bytes=self._limits.flash_bytes,
            max_value_bytes=int(self.config.max_value_bytes),
        )

    def status(self, agent_id: str, conditions: Iterable[Condition] = ()) -> Status:
        """What the agent is and runs; `conditions` are those of the caller, the data plane's own are added."""
        with self._lock:
            generation, digest = self._generation, self.applied_digest
        return Status(
            agent_id=agent_id,
            version=AGENT_VERSION,
            boot_id=self.boot_id,
            started_at_s=self.started_at_s,
            observed_generation=generation,
            applied_digest=digest,
            tiers=[_usage(tier) for tier in self._store.tier_snapshots()],
            conditions=[*self._store.conditions(), *conditions],
        )

    def snapshot(self) -> StatsSnapshot:
        """All counters and gauges at this moment, for `/metrics`."""
        return replace(
            self._store.stats_snapshot(), policy_generation=self._generation, policy_applied=self._policy_applied
        )

    def apply_desired(self, desired: Desired) -> ApplyReply:
        """Obey a desired policy whose signature and audience were checked.

        A lower generation is stale, an equal one with the same digest was applied before, a higher one is validated,
        written durably and only then put in force. Nothing is half-applied.
        """
        with self._lock:
            if desired.generation < self._generation:
                return self._reply(ApplyState.STALE)
            if desired.generation == self._generation:
                if desired.digest == self.applied_digest:
                    return self._reply(ApplyState.APPLIED)
                text = f"generation {desired.generation} already names another policy"
                return self._reply(ApplyState.REFUSED, [FieldProblem(field="generation", problem=text)])
            try:
                document = parse_policy(desired.document)
                if document.digest() != desired.digest:
                    text = f"the document has digest {document.digest()}"
                    return self._reply(ApplyState.REFUSED, [FieldProblem(field="digest", problem=text)])
                resolved = resolve(document, self._limits)
                self._persist(desired.generation, document)
            except PolicyError as error:
                problems = [FieldProblem(field=p.field, problem=p.problem, remedy=p.remedy) for p in error.problems]
                return self._reply(ApplyState.REFUSED, problems)
            except OSError as error:
                text = f"the agent cannot store the policy: {error.strerror}"
                return self._reply(ApplyState.REFUSED, [FieldProblem(field="", problem=text, remedy="see its disk")])
            self._store.apply_policy(resolved)
            self._generation, self._document = desired.generation, document
            self._policy_applied += 1
            logger.info("policy %s in force, generation %d", desired.digest, desired.generation)
            return self._reply(ApplyState.APPLIED)

    def begin_generations(self) -> None:
        """Count generations from 0 again, under the same policy: the agent has a new id.

        What was signed before names the old id as its audience, so nothing of it can be replayed.

        Raises:
            OSError: the policy file cannot be written; nothing has changed.
        """
        with self._lock:
            if self._generation:
                self._persist(0, self._document)
                self._generation = 0

    def _reply(self, state: ApplyState, problems: Iterable[FieldProblem] = ()) -> ApplyReply:
        return ApplyReply(
            state=state,
            observed_generation=self._generation,
            applied_digest=self.applied_digest,
            problems=list(problems),
        )

    def _persist(self, generation: int, document: PolicyDocument) -> None:
        record = {"generation": generation, "digest": document.digest(), "document": document.as_dict()}
        write_private_file(self._path, canonical_json(record))


def _usage(tier: TierSnapshot) -> TierUsage:
    return TierUsage(
        tier="dram" if tier.tier == "dram" else "flash",
        stored_bytes=tier.stored_bytes,
        stored_blocks=tier.stored_blocks,
        capacity_bytes=tier.capacity_bytes,
        limit_bytes=tier.limit_bytes,
    )


def _load_policy(path: Path, limits: TierLimits) -> tuple[int, PolicyDocument, ResolvedPolicy]:
    """Return generation, document and bytes of the last good policy; generation 0 and the default one if there is none.

    A file that cannot be read back is set aside: the control plane's next heartbeat brings the policy again.
    """
    try:
        record = json.loads(path.read_bytes())
        document = parse_policy(record["document"])
        if document.digest() != record["digest"] or not isinstance(record["generation"], int):
            raise ValueError("its digest does not match its document")
        return record["generation"], document, resolve(document, limits)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("the stored policy cannot be used (%s): running the default one, file kept as .bad", error)
        path.replace(path.with_suffix(".bad"))
    document = default_policy()
    return 0, document, resolve(document, limits)
