"""What changes between two policies."""

from typing import Any, NamedTuple

from kvcache.policy.document import PolicyDocument


class FieldChange(NamedTuple):
    """A field's dotted path and its value before and after; None where the field was not given."""

    field: str
    before: Any
    after: Any


def diff(old: PolicyDocument, new: PolicyDocument) -> list[FieldChange]:
    """Return every field that differs, sorted by path; empty exactly when the digests are equal."""
    before, after = _flat(old.as_dict()), _flat(new.as_dict())
    return [
        FieldChange(field, before.get(field), after.get(field))
        for field in sorted(before.keys() | after.keys())
        if before.get(field) != after.get(field)
    ]


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, dict):
            leaves |= _flat(item, f"{prefix}{name}.")
        else:
            leaves[prefix + name] = item
    return leaves
