"""Writes of policies: each one transaction with its audit row inside."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, ProtectedError
from django.utils import timezone

from fabric.audit.services import record
from fabric.core.actor import Actor, Role
from fabric.core.checks import checked_line, checked_text
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound, Problem, StaleVersion
from fabric.policies.models import Policy, PoolPolicy, Revision
from fabric.pools.models import Pool
from kvcache.policy import PolicyDocument, PolicyError, load_policy_text, parse_policy


def create_policy(*, actor: Actor, name: str, description: str = "") -> Policy:
    """Make a policy without revisions. Raises `Invalid` for a bad name, `Conflict` for one that is taken."""
    _require_operator(actor)
    name, description = _checked(name, description)
    try:
        with transaction.atomic():
            policy = Policy.objects.create(name=name, description=description)
            after = {"name": name, "description": description}
            record(actor=actor, verb="create", obj=policy, before={}, after=after, reason="")
    except IntegrityError:
        raise _name_taken(name) from None
    return policy


def update_policy(
    *,
    actor: Actor,
    policy_id: UUID,
    name: str | None = None,
    description: str | None = None,
    expected_version: int | None = None,
) -> Policy:
    """Change name or description; None keeps it. Raises `StaleVersion` unless `expected_version` (if given) is
    current.
    """
    _require_operator(actor)
    try:
        with transaction.atomic():
            policy = _locked(policy_id, expected_version)
            before = {"name": policy.name, "description": policy.description}
            new_name, new_description = _checked(
                policy.name if name is None else name, policy.description if description is None else description
            )
            after = {"name": new_name, "description": new_description}
            if after != before:
                Policy.objects.filter(pk=policy.pk).update(
                    name=new_name, description=new_description, version=F("version") + 1, updated_at=timezone.now()
                )
                policy.refresh_from_db()
                record(actor=actor, verb="update", obj=policy, before=before, after=after, reason="")
    except IntegrityError:
        raise _name_taken(name or "") from None
    return policy


def delete_policy(*, actor: Actor, policy_id: UUID, expected_version: int | None = None) -> None:
    """Remove a policy that no pool runs and that never went out. Raises `Blocked` naming what holds it."""
    _require_operator(actor)
    with transaction.atomic():
        policy = _locked(policy_id, expected_version)
        pools = [str(row.pool) for row in PoolPolicy.objects.filter(policy=policy).select_related("pool")]
        if pools:
            problem = Problem("", f"it is assigned to {', '.join(pools)}", "assign another policy there first")
            raise Blocked(f"Policy {policy.name} is in use.", [problem])
        record(actor=actor, verb="delete", obj=policy, before={"name": policy.name}, after={}, reason="")
        try:
            Revision.objects.filter(policy=policy).delete()
            policy.delete()
        except ProtectedError:
            problem = Problem(
                "", "a rollout of one of its revisions is on record", "keep it; rename it if it is retired"
            )
            raise Blocked(f"Policy {policy.name} has been rolled out.", [problem]) from None


def write_revision(
    *,
    actor: Actor,
    policy_id: UUID,
    document: Mapping[str, Any] | None = None,
    text: str | None = None,
    note: str = "",
    expected_version: int | None = None,
) -> Revision:
    """Store a document (a mapping, or YAML or JSON text; exactly one of them) as the policy's next revision, for ever.

    Raises:
        Invalid: the document cannot be used; `problems` name its fields by dotted path.
        Conflict: it says the same as the newest revision.
        StaleVersion: somebody wrote a revision since the caller read the policy at `expected_version`.
    """
    _require_operator(actor)
    parsed = parsed_document(document=document, text=text)
    problems: list[Problem] = []
    note = checked_text(note, "note", problems)
    if problems:
        raise Invalid("The note cannot be stored like this.", problems)
    with transaction.atomic():
        policy = _locked(policy_id, expected_version)
        latest = policy.revisions.order_by("-number").first()
        digest = parsed.digest()
        if latest is not None and latest.digest == digest:
            problem = Problem(
                "document", f"it says the same as {latest}", "change something, or roll that revision out"
            )
            raise Conflict(f"Nothing changed: the document is that of {latest}.", [problem])
        number = latest.number + 1 if latest else 1
        revision = Revision.objects.create(
            policy=policy,
            number=number,
            document=parsed.as_dict(),
            digest=digest,
            note=note,
            created_by=actor.name,
        )
        Policy.objects.filter(pk=policy.pk).update(version=F("version") + 1, updated_at=timezone.now())
        after = {"number": number, "digest": digest}
        record(actor=actor, verb="write_revision", obj=revision, before={}, after=after, reason=note)
    return revision


def assign_policy(*, actor: Actor, pool_id: UUID, policy_id: UUID, reason: str = "") -> PoolPolicy:
    """Say which policy a pool runs. What its agents run changes only with the next rollout."""
    _require_operator(actor)
    with transaction.atomic():
        pool = Pool.objects.select_for_update().filter(pk=pool_id).first()
        if pool is None:
            raise NotFound("There is no such pool.")
        policy = Policy.objects.filter(pk=policy_id).first()
        if policy is None:
            raise NotFound("There is no such policy.")
        row = PoolPolicy.objects.select_related("policy").filter(pool=pool).first()
        before = {"policy": row.policy.name} if row else {}
        if row is None:
            row = PoolPolicy.objects.create(pool=pool, policy=policy)
        elif row.policy_id != policy.pk:
            PoolPolicy.objects.filter(pk=row.pk).update(policy=policy, updated_at=timezone.now())
            row.refresh_from_db()
        else:
            return row
        after = {"policy": policy.name}
        record(actor=actor, verb="assign_policy", obj=pool, before=before, after=after, reason=reason)
    return row


def set_current_revision(*, actor: Actor, pool_id: UUID, revision_id: UUID) -> None:
    """Note that every agent of the pool runs this revision now (called when a rollout has succeeded)."""
    with transaction.atomic():
        row = PoolPolicy.objects.select_for_update(of=("self",)).select_related("pool").get(pool_id=pool_id)
        if row.current_revision_id == revision_id:
            return
        before = {"current_revision": str(row.current_revision) if row.current_revision else None}
        PoolPolicy.objects.filter(pk=row.pk).update(current_revision_id=revision_id, updated_at=timezone.now())
        after = {"current_revision": str(Revision.objects.select_related("policy").get(pk=revision_id))}
        record(actor=actor, verb="set_current_revision", obj=row.pool, before=before, after=after, reason="")


def parsed_document(*, document: Mapping[str, Any] | None = None, text: str | None = None) -> PolicyDocument:
    """Return the policy in a mapping or in YAML or JSON text. Raises `Invalid` with dotted fields."""
    if (document is None) == (text is None):
        problem = Problem("document", "give exactly one of document and text", "a JSON document, or YAML or JSON text")
        raise Invalid("A revision needs one document.", [problem])
    try:
        return load_policy_text(text) if text is not None else parse_policy(document or {})
    except PolicyError as error:
        problems = [Problem(p.field or "document", p.problem, p.remedy) for p in error.problems]
        raise Invalid("The policy document cannot be used.", problems) from None


def _locked(policy_id: UUID, expected_version: int | None) -> Policy:
    policy = Policy.objects.select_for_update().filter(pk=policy_id).first()
    if policy is None:
        raise NotFound("There is no such policy.")
    if expected_version is not None and policy.version != expected_version:
        raise StaleVersion(f"Policy {policy.name} was changed since you read it: reload and try again.")
    return policy


def _checked(name: str, description: str) -> tuple[str, str]:
    problems: list[Problem] = []
    name = checked_line(name, "name", problems)
    description = checked_text(description, "description", problems)
    if problems:
        raise Invalid("The policy cannot be stored like this.", problems)
    return name, description


def _name_taken(name: str) -> Conflict:
    problem = Problem("name", "another policy has this name", "choose another name")
    return Conflict(f"There is a policy named {name.strip()!r} already.", [problem])


def _require_operator(actor: Actor) -> None:
    if not actor.may(Role.OPERATOR):
        raise NotAllowed(f"{actor.name} may look at policies but not change them: that needs the operator role.")
