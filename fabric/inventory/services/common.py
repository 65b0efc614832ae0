"""Create, change and delete for every kind of thing in the inventory: one transaction each, audit row inside."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Model
from django.db.models.deletion import ProtectedError

from fabric.audit.services import record
from fabric.core.actor import Actor, Role
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound, Problem, StaleVersion
from fabric.inventory.domain import clean_serial
from fabric.inventory.models import Device, Source
from fabric.inventory.services.fields import checked_facts

M = TypeVar("M", bound=Model)
MAX_NAMED = 20


@dataclass(frozen=True)
class Kind(Generic[M]):
    """What differs between kinds: the model, its noun, what may be declared, what must be unique, what keeps it."""

    model: type[M]
    noun: str
    editable: tuple[str, ...]
    unique_together: Callable[[Mapping[str, Any]], list[tuple[str, ...]]]
    """Column sets that must be unique, for a row with these values."""
    kept_by: tuple[str, ...] = ()
    """Relations whose rows must be gone before this one may go."""


HARD_FACTS = frozenset(
    {
        "name",
        "manufacturer",
        "model",
        "serial",
        "firmware",
        "os",
        "kernel",
        "architecture",
        "cpu_model",
        "cpu_threads",
        "memory_bytes",
        "mode",
        "base_mac",
        "port_count",
        "transport",
        "nqn",
        "capacity_bytes",
        "logical_block_bytes",
        "rotational",
    }
)
"""What discovery would write too. A person who sets one of them takes the row over: it becomes `declared`."""


def create(kind: Kind[M], actor: Actor, facts: Mapping[str, Any]) -> M:
    """Store a declared row. Raises `NotAllowed`, `Invalid`, `Conflict` (not unique)."""
    _require_operator(actor)
    try:
        with transaction.atomic():
            values = _checked(kind, facts, pk=None)
            row = kind.model._default_manager.create(**values)
            record(actor=actor, verb="create", obj=row, before={}, after=values)
    except IntegrityError:
        raise _raced(kind) from None
    return row


def update(kind: Kind[M], actor: Actor, pk: UUID, expected_version: int | None, facts: Mapping[str, Any]) -> M:
    """Change what is given. Raises `NotAllowed`, `NotFound`, `StaleVersion`, `Invalid`, `Conflict`."""
    _require_operator(actor)
    try:
        with transaction.atomic():
            row: Any = _locked(kind, pk, expected_version)
            before = {name: getattr(row, name) for name in kind.editable}
            after = _checked(kind, before | dict(facts), pk=pk, given=facts)
            changed = {name: value for name, value in after.items() if value != before[name]}
            if changed:
                old = {name: before[name] for name in changed}
                if isinstance(row, Device) and row.source == Source.DISCOVERED and HARD_FACTS & set(changed):
                    old["source"], changed["source"] = row.source, Source.DECLARED.value
                    changed["source_detail"] = f"edited by {actor.name}"[:255]
                for name, value in changed.items():
                    setattr(row, name, value)
                row.version += 1
                row.save(update_fields=[*changed, "version", "updated_at"])
                record(actor=actor, verb="update", obj=row, before=old, after=changed)
    except IntegrityError:
        raise _raced(kind) from None
    typed: M = row
    return typed


def delete(kind: Kind[M], actor: Actor, pk: UUID, expected_version: int | None, reason: str) -> None:
    """Remove a row. Raises `NotAllowed`, `NotFound`, `StaleVersion`, `Blocked` naming what is still in it."""
    _require_operator(actor)
    with transaction.atomic():
        row: Any = _locked(kind, pk, expected_version)
        problems = []
        for relation in kind.kept_by:
            for other in getattr(row, relation).all()[:MAX_NAMED]:
                problems.append(Problem(relation, f"{other} is in it", "remove it or move it elsewhere first"))
        if problems:
            raise Blocked(f"{kind.noun.capitalize()} {row} is in use.", problems)
        before = {name: getattr(row, name) for name in kind.editable}
        record(actor=actor, verb="delete", obj=row, before=before, after={}, reason=reason)
        try:
            row.delete()
        except ProtectedError:
            raise Blocked(f"{kind.noun.capitalize()} {row} is in use.") from None


def _locked(kind: Kind[M], pk: UUID, expected_version: int | None) -> M:
    row: Any = kind.model._default_manager.select_for_update(of=("self",)).filter(pk=pk).first()
    if row is None:
        raise NotFound(f"There is no such {kind.noun}.")
    if expected_version is not None and row.version != expected_version:
        raise StaleVersion(f"{kind.noun.capitalize()} {row} was changed since you read it: reload and try again.")
    typed: M = row
    return typed


def _checked(
    kind: Kind[M], values: Mapping[str, Any], *, pk: UUID | None, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Check what was given, and that the whole row stays unique; return the whole row."""
    given = values if given is None else given
    unknown = set(given) - set(kind.editable)
    if unknown:
        raise TypeError(f"a {kind.noun} has no {', '.join(sorted(unknown))} to declare")
    problems: list[Problem] = []
    if pk is None and "name" not in given:
        problems.append(Problem("name", "it is missing", "give a name"))
    for name in kind.editable:
        field = kind.model._meta.get_field(name)
        if pk is None and name.endswith("_id") and not field.null and name not in given:
            problems.append(Problem(field.name, "it is missing", f"choose a {field.name}"))
    checked = {**values, **checked_facts(kind.model, given, problems)}
    if "serial" in given:
        checked["serial"] = clean_serial(checked["serial"])
    if problems:
        raise Invalid(f"The {kind.noun} cannot be stored like this.", problems)
    _require_unique(kind, checked, pk)
    return checked


def _require_unique(kind: Kind[M], values: Mapping[str, Any], pk: UUID | None) -> None:
    for columns in kind.unique_together(values):
        same = kind.model._default_manager.filter(**{column: values.get(column, "") for column in columns})
        if same.exclude(pk=pk).exists():
            named = " and ".join(column.removesuffix("_id") for column in columns)
            problem = Problem(columns[-1], f"another {kind.noun} has this {named}", "choose another, or edit that one")
            raise Conflict(f"There is such a {kind.noun} already.", [problem])


def _raced(kind: Kind[M]) -> Conflict:
    """Somebody stored the same between our look and our write."""
    return Conflict(f"There is such a {kind.noun} already: reload and look.")


def _require_operator(actor: Actor) -> None:
    if not actor.may(Role.OPERATOR):
        raise NotAllowed(f"{actor.name} may look at the inventory but not change it: that needs the operator role.")
