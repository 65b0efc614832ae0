"""The only writer of the audit trail. It is called by services, inside the transaction of what it records."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import Model

from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor
from fabric.core.middleware import request_id

MAX_LABEL_CHARS = 255
_SECRET_NAMES = frozenset({"password", "secret", "token", "access_token", "token_secret", "private_key", "api_key"})


@dataclass(frozen=True, slots=True)
class Act:
    """One change to record: the object and what of it changed."""

    obj: Model
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


def record(
    *,
    actor: Actor,
    verb: str,
    obj: Model,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    reason: str = "",
) -> AuditEntry:
    """Write one row: who did what to which object, what it was and what it became (only what changed), and why.

    Raises:
        TransactionManagementError: called outside a transaction; the row could then survive a change that did not.
        ValueError: `before` or `after` names a secret.
    """
    return record_many(actor=actor, verb=verb, acts=[Act(obj, before, after)], reason=reason)[0]


def record_many(*, actor: Actor, verb: str, acts: Iterable[Act], reason: str = "") -> list[AuditEntry]:
    """Write one row for each act of the same verb, in one statement. Raises as `record` does."""
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("audit rows belong into the transaction of what they record")
    entries = [
        AuditEntry(
            actor_kind=actor.kind.value,
            actor_id=actor.id,
            actor_name=actor.name[:MAX_LABEL_CHARS],
            verb=verb,
            object_type=act.obj._meta.label_lower,
            object_id=str(act.obj.pk),
            object_label=str(act.obj)[:MAX_LABEL_CHARS],
            reason=reason,
            before=_plain(act.before),
            after=_plain(act.after),
            request_id=request_id.get(),
        )
        for act in acts
    ]
    return AuditEntry.objects.bulk_create(entries)


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts as JSON values (UUIDs, dates and lazy texts as text)."""
    named = _SECRET_NAMES & {str(name) for name in facts}
    if named:
        raise ValueError(f"secrets do not go into the audit trail: {', '.join(sorted(named))}")
    plain: dict[str, Any] = json.loads(json.dumps(dict(facts), cls=DjangoJSONEncoder))
    return plain
