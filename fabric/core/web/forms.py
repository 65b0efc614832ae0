"""The base form: knows which of its fields a service's problem means, and where units stand."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django import forms

MAX_REASON_CHARS = 2000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|[KMGTPE]i?B?)?", re.IGNORECASE)
_PREFIXES = " KMGTPE"
MAX_SIZE_CHARS = 40


class Form(forms.Form):
    """A form whose fields are named as the service's parameters; `paths` maps other dotted paths to field names."""

    use_required_attribute = True
    paths: Mapping[str, str] = {}

    def field_for(self, path: str) -> str | None:
        """Return the name of the field that a problem at `path` belongs to, or None for the whole form."""
        name = self.paths.get(path, path)
        if name in self.fields:
            return name
        short = name.removesuffix("_id")
        return short if short in self.fields else None


class VersionedForm(Form):
    """A form for an object that others may change meanwhile: carries the version that was read."""

    expected_version = forms.IntegerField(required=False, widget=forms.HiddenInput)


class ReasonForm(Form):
    """Asks why, for the audit log."""

    reason = forms.CharField(
        required=False,
        max_length=MAX_REASON_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Why? Stands in the audit log beside your name.",
    )


class ConfirmForm(Form):
    """Asks nothing but yes."""


def with_unit(field: forms.Field, unit: str) -> forms.Field:
    """Return the field with a unit that is shown after its control."""
    vars(field)["unit"] = unit
    return field


def sometimes_required(field: forms.Field) -> forms.Field:
    """Return the field as one that the form itself asks for when another choice makes it needed."""
    field.required = False
    vars(field)["sometimes_required"] = True
    return field


def choices_of(enumeration: Any, *, empty: str = "") -> list[tuple[str, str]]:
    """Return an enumeration's choices, with a first empty one where `empty` names it."""
    choices = [(str(value), str(label)) for value, label in enumeration.choices]
    return [("", empty), *choices] if empty else choices


class SizeField(forms.Field):
    """A number of bytes, typed as `64GiB`, `1.5 TiB` or plain digits. `64GB` is refused: it may mean either."""

    def prepare_value(self, value: Any) -> Any:
        """Show bytes in the largest binary unit that divides them."""
        if not isinstance(value, int) or isinstance(value, bool) or value == 0:
            return value
        power = 0
        while value % 1024 == 0 and power < len(_PREFIXES) - 1:
            value //= 1024
            power += 1
        return f"{value} {_PREFIXES[power]}iB" if power else str(value)

    def to_python(self, value: Any) -> Any:
        """Return whole bytes, or None for an empty field."""
        text = str(value or "").strip()
        if not text:
            return None
        match = _SIZE.fullmatch(text) if len(text) <= MAX_SIZE_CHARS else None
        unit = (match[2] or "").upper() if match else ""
        if match is None or (len(unit) == 2 and unit.endswith("B")):
            raise forms.ValidationError("This is not a size: write bytes, or a number with KiB, MiB, GiB, TiB or PiB.")
        size = Decimal(match[1]) * 1024 ** _PREFIXES.index(unit[0] if unit and unit != "B" else " ")
        if size != size.to_integral_value():
            raise forms.ValidationError("This is not a whole number of bytes.")
        return int(size)
