"""Checks of what operators declare, read off the models' own fields so that a limit stands in one place."""

import math
import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import models

from fabric.core.checks import checked_line, checked_slug, checked_text
from fabric.core.errors import Problem
from fabric.inventory.domain import MAX_BIGINT, MAX_INT

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_LARGEST: Mapping[type, int] = {
    models.PositiveSmallIntegerField: 32767,
    models.PositiveIntegerField: MAX_INT,
    models.PositiveBigIntegerField: MAX_BIGINT,
}


def checked_facts(model: type[models.Model], facts: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Return the facts as the model's columns can hold them; what cannot be held is added to `problems`."""
    return {name: _checked(model._meta.get_field(name), name, value, problems) for name, value in facts.items()}


def _checked(field: Any, name: str, value: Any, problems: list[Problem]) -> Any:
    if isinstance(field, models.ForeignKey):
        return _checked_reference(field, value, problems)
    if field.choices:
        return _checked_choice(field, name, value, problems)
    if isinstance(field, models.SlugField):
        return checked_slug(value, name, problems)
    if isinstance(field, models.TextField):
        return checked_text(value, name, problems)
    if isinstance(field, models.CharField):
        text = checked_line(value, name, problems, max_chars=field.max_length or 255, required=not field.blank)
        return _checked_mac(text, name, problems) if name == "base_mac" and text else text
    if isinstance(field, models.FloatField):
        return _checked_number(name, value, problems)
    if type(field) in _LARGEST:
        return _checked_whole_number(name, value, _LARGEST[type(field)], problems)
    return value


def _checked_reference(field: models.ForeignKey[Any, Any], value: UUID | None, problems: list[Problem]) -> UUID | None:
    noun = field.name
    if value is None:
        if not field.null:
            problems.append(Problem(noun, "it is missing", f"choose a {noun}"))
    elif not field.related_model._default_manager.filter(pk=value).exists():
        problems.append(Problem(noun, f"there is no such {noun}", "choose one of the inventory's"))
    return value


def _checked_choice(field: Any, name: str, value: Any, problems: list[Problem]) -> Any:
    known = [choice for choice, _ in field.choices]
    if value not in known:
        problems.append(Problem(name, "it is unknown", f"there are: {', '.join(known)}"))
    return value


def _checked_mac(text: str, name: str, problems: list[Problem]) -> str:
    text = text.lower().replace("-", ":")
    if not _MAC.fullmatch(text):
        problems.append(Problem(name, "it is not a MAC address", "give six bytes such as 02:00:5e:10:00:01"))
    return text


def _checked_whole_number(name: str, value: int | None, largest: int, problems: list[Problem]) -> int | None:
    if value is not None and not 1 <= value <= largest:
        problems.append(Problem(name, "it is out of range", f"give a whole number from 1 to {largest}, or nothing"))
    return value


def _checked_number(name: str, value: float | None, problems: list[Problem]) -> float | None:
    if value is not None and not (math.isfinite(value) and 0 < value <= 1000):
        problems.append(Problem(name, "it is out of range", "give a number above 0 and at most 1000, or nothing"))
    return value
