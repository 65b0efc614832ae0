"""Writes of pools: each one transaction with its audit row inside."""

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from fabric.audit.services import record
from fabric.core.actor import Actor, Role
from fabric.core.checks import checked_line, checked_text
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound, Problem, StaleVersion
from fabric.inventory.models import Pod
from fabric.pools.models import Pool

MAX_NAMED = 20
"""A refusal names no more agents than this."""


def create_pool(*, actor: Actor, name: str, pod_id: UUID | None = None, description: str = "") -> Pool:
    """Make an empty pool. Raises `NotAllowed`, `Invalid` (name, pod), `Conflict` (name taken)."""
    _require_operator(actor)
    facts = _checked(name, pod_id, description)
    try:
        with transaction.atomic():
            pool = Pool.objects.create(**facts)
            record(actor=actor, verb="create", obj=pool, before={}, after=facts)
    except IntegrityError:
        raise _name_taken(facts["name"]) from None
    return pool


def update_pool(*, actor: Actor, pool_id: UUID, expected_version: int | None = None, **changes: Any) -> Pool:
    """Change `name`, `pod_id` or `description`; what is not given stays.

    Raises:
        NotAllowed, NotFound, Invalid, Conflict (name taken), StaleVersion.
    """
    _require_operator(actor)
    unknown = set(changes) - {"name", "pod_id", "description"}
    if unknown:
        raise TypeError(f"update_pool() has no {', '.join(sorted(unknown))}")
    try:
        with transaction.atomic():
            pool = _locked(pool_id, expected_version)
            before = {"name": pool.name, "pod_id": pool.pod_id, "description": pool.description}
            after = _checked(**(before | changes))
            changed = {name: value for name, value in after.items() if value != before[name]}
            if changed:
                for name, value in changed.items():
                    setattr(pool, name, value)
                pool.version += 1
                pool.save(update_fields=[*changed, "version", "updated_at"])
                old = {name: before[name] for name in changed}
                record(actor=actor, verb="update", obj=pool, before=old, after=changed)
    except IntegrityError:
        raise _name_taken(str(changes.get("name", ""))) from None
    return pool


def delete_pool(*, actor: Actor, pool_id: UUID, expected_version: int | None = None, reason: str = "") -> None:
    """Remove a pool that no agent is in and that no rollout went to. Raises `Blocked` naming what holds it."""
    _require_operator(actor)
    with transaction.atomic():
        pool = _locked(pool_id, expected_version)
        names = list(pool.agents.order_by("name").values_list("name", flat=True)[: MAX_NAMED + 1])
        if names:
            problems = [Problem("agents", f"{name} is in it", "move it to another pool") for name in names[:MAX_NAMED]]
            if len(names) > MAX_NAMED:
                problems.append(Problem("agents", "and more", "list the agents of this pool"))
            raise Blocked(f"Pool {pool.name} still has agents.", problems)
        before = {"name": pool.name, "pod_id": pool.pod_id, "description": pool.description}
        record(actor=actor, verb="delete", obj=pool, before=before, after={}, reason=reason)
        try:
            pool.delete()
        except ProtectedError:
            problem = Problem("rollouts", "rollouts to it are on record", "keep it; rename it if it is retired")
            raise Blocked(f"Pool {pool.name} has a history that would be lost.", [problem]) from None


def _locked(pool_id: UUID, expected_version: int | None) -> Pool:
    pool = Pool.objects.select_for_update().filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("There is no such pool.")
    if expected_version is not None and pool.version != expected_version:
        raise StaleVersion(f"Pool {pool.name} was changed since you read it: reload and try again.")
    return pool


def _checked(name: str, pod_id: UUID | None, description: str) -> dict[str, Any]:
    problems: list[Problem] = []
    facts = {
        "name": checked_line(name, "name", problems),
        "pod_id": pod_id,
        "description": checked_text(description, "description", problems),
    }
    if pod_id is not None and not Pod.objects.filter(pk=pod_id).exists():
        problems.append(Problem("pod", "there is no such pod", "choose one of the inventory's pods"))
    if problems:
        raise Invalid("The pool cannot be stored like this.", problems)
    return facts


def _name_taken(name: str) -> Conflict:
    problem = Problem("name", "another pool has this name", "choose another name")
    return Conflict(f"There is a pool named {name.strip()!r} already.", [problem])


def _require_operator(actor: Actor) -> None:
    if not actor.may(Role.OPERATOR):
        raise NotAllowed(f"{actor.name} may look at pools but not change them: that needs the operator role.")
