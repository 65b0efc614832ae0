"""From an untrusted mapping to a `PolicyDocument`, or to a list of everything that is wrong with it."""

import difflib
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvcache.policy.document import VERSION, PolicyDocument
from kvcache.policy.problems import FieldProblem, PolicyError

MAX_PROBLEMS = 50
MAX_NAME_CHARS = 60


def parse_policy(mapping: Mapping[str, Any]) -> PolicyDocument:
    """Return the document that `mapping` describes; fields left out take their defaults, `version` must be there.

    Raises:
        PolicyError: with every problem found, at most `MAX_PROBLEMS`, each with the dotted path of its field.
    """
    if not isinstance(mapping, Mapping):
        raise PolicyError([FieldProblem("", "a policy is a mapping of fields", "begin with version and tiers")])
    _check_version(mapping)
    try:
        return PolicyDocument.model_validate(dict(mapping))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        problems = [_problem(detail) for detail in details[:MAX_PROBLEMS]]
        if len(details) > MAX_PROBLEMS:
            problems.append(FieldProblem("", f"{len(details) - MAX_PROBLEMS} more problems", "repair these first"))
        raise PolicyError(problems) from None


def _check_version(mapping: Mapping[str, Any]) -> None:
    """Look at the version before anything else: the fields of another version would only give misleading errors."""
    if "version" not in mapping:
        raise PolicyError([FieldProblem("version", "the version is missing", f"add version: {VERSION}")])
    version = mapping["version"]
    if version == VERSION and isinstance(version, str):
        return
    if isinstance(version, str):
        problem = f"version {_shown(version)} is not known here"
        if version.startswith("fabric/v"):
            problem = f"version {_shown(version)} is newer than this program or was never published"
        raise PolicyError([FieldProblem("version", problem, f"use {VERSION}, or update this program")])
    raise PolicyError([FieldProblem("version", "the version is not a text", f"write version: {VERSION}")])


def _problem(detail: ErrorDetails) -> FieldProblem:
    field = ".".join(_shown(part, quote=False) for part in detail["loc"])
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return FieldProblem(field, "there is no such field", _nearest_name(detail["loc"]))
    if kind in _FIXED:
        return FieldProblem(field, *_FIXED[kind])
    if kind in _BOUNDS:
        name, sign, remedy = _BOUNDS[kind]
        bound = context[name]
        bound = int(bound) if bound == int(bound) else bound
        return FieldProblem(field, f"the number is not {sign} {bound}", f"{remedy} {bound}")
    if kind == "low_above_high":
        return FieldProblem(field, detail["msg"], f"give at most {context['high']}")
    if kind == "literal_error":
        return FieldProblem(field, "this choice does not exist", f"one of {context['expected']}")
    return FieldProblem(field, detail["msg"])


_FIXED = {
    "finite_number": ("the number is not finite", "write an ordinary number"),
    "not_a_number": ("this is not a number", "write a number without quotes and without a unit, such as 0.5"),
    "not_a_whole_number": ("this is not a whole number", "write digits only, without quotes and without a unit"),
    "bool_type": ("this is not a switch", "write true or false"),
    "model_type": ("this is not a mapping of fields", "write its fields below it"),
    "exactly_one": ("a capacity is either a share or bytes", "give exactly one of share and bytes"),
    "invalid_key": ("a field name is not a text", "write field names as plain words"),
    "too_large": ("the number is too large", "write a number of ordinary size"),
}
_BOUNDS = {
    "greater_than": ("gt", "above", "give more than"),
    "greater_than_equal": ("ge", "at least", "give at least"),
    "less_than": ("lt", "below", "give less than"),
    "less_than_equal": ("le", "at most", "give at most"),
}


def _nearest_name(path: tuple[int | str, ...]) -> str:
    """Name the known field that was probably meant at `path`, else all fields that may stand there."""
    names = list(_model_at(path[:-1]).model_fields)
    close = difflib.get_close_matches(str(path[-1])[:MAX_NAME_CHARS].lower(), names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"fields here: {', '.join(names)}"


def _model_at(path: tuple[int | str, ...]) -> type[BaseModel]:
    """Follow known field names down to the part of the document in which an unknown one was written."""
    model: type[BaseModel] = PolicyDocument
    for name in path:
        model = cast(type[BaseModel], model.model_fields[str(name)].annotation)
    return model


def _shown(value: object, *, quote: bool = True) -> str:
    text = str(value)
    text = text if len(text) <= MAX_NAME_CHARS else text[:MAX_NAME_CHARS] + "…"
    return repr(text) if quote else text
