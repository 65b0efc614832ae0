"""Forms of policies. The document's form is made of the JSON schema of `kvcache.policy`: a new field there is a
field here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django import forms
from django.forms import BoundField

from fabric.core.web.forms import SizeField, VersionedForm, sometimes_required, with_unit
from kvcache.policy import VERSION

MAX_TEXT_CHARS = 64 * 1024
SHARE, BYTES = "share", "bytes"
_PERCENT = Decimal(100)


class PolicyForm(VersionedForm):
    """Name and purpose of a policy."""

    name = forms.CharField(max_length=100, help_text="Unique, such as `default` or `long-context`.")
    description = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 3}), help_text="What it is for, and whom to ask."
    )


class RevisionNoteForm(VersionedForm):
    """What every way of writing a revision asks beside the document."""

    note = forms.CharField(
        required=False, max_length=2000, help_text="Why this change? Stands beside the revision for ever."
    )


class PolicyTextForm(RevisionNoteForm):
    """The document as YAML or JSON text."""

    text = forms.CharField(
        max_length=MAX_TEXT_CHARS,
        label="Document",
        widget=forms.Textarea(attrs={"class": "mono", "spellcheck": "false", "rows": 24}),
        help_text="YAML, or JSON when it begins with a brace. Fields that are left out take their defaults.",
    )
    field_order = ("text", "note")

    def field_for(self, path: str) -> str | None:
        """Whatever is wrong with the document is wrong with its text; the path is then part of the message."""
        return super().field_for(path)


@dataclass(frozen=True, slots=True)
class TierFields:
    """One tier as the template shows it: the choice of capacity, then the other fields."""

    title: str
    description: str
    mode: BoundField
    share: BoundField
    size: BoundField
    others: list[BoundField]


class PolicyDocumentForm(RevisionNoteForm):
    """The document as fields, `<tier>-<field>` each. `document()` gives what was typed as a document."""

    def __init__(
        self, data: Any = None, *, schema: Mapping[str, Any], document: Mapping[str, Any], **options: Any
    ) -> None:
        super().__init__(data, **options)
        self._tiers = dict(_tiers_in(schema))
        self.paths = dict[str, str]()
        for tier, properties in self._tiers.items():
            values = document["tiers"][tier]
            self._add_capacity(tier, schema, values["capacity"])
            for name, node in properties.items():
                if name != "capacity":
                    self._add(tier, name, node, values[name])
        self.order_fields([name for name in self.fields if name != "note"])

    def _add_capacity(self, tier: str, schema: Mapping[str, Any], capacity: Mapping[str, Any]) -> None:
        share, size = (schema["$defs"]["Capacity"]["properties"][name] for name in (SHARE, BYTES))
        self._put(
            f"{tier}-capacity_mode",
            forms.ChoiceField(
                label="Capacity as",
                choices=[(SHARE, "share of the agent's limit"), (BYTES, "fixed size on each agent")],
                widget=forms.RadioSelect,
                initial=BYTES if BYTES in capacity else SHARE,
            ),
            f"tiers.{tier}.capacity",
        )
        percent = sometimes_required(_percent_field(share, capacity.get(SHARE, 0.25)))
        self._put(f"{tier}-capacity_percent", percent, f"tiers.{tier}.capacity.{SHARE}")
        self._put(
            f"{tier}-capacity_bytes",
            sometimes_required(
                SizeField(
                    label="Size", initial=capacity.get(BYTES), help_text=f"{size['description']} Such as `64 GiB`."
                )
            ),
            f"tiers.{tier}.capacity.{BYTES}",
        )

    def _add(self, tier: str, name: str, node: Mapping[str, Any], value: Any) -> None:
        suffix = "_percent" if node.get("unit") == "ratio" else ""
        self._put(f"{tier}-{name}{suffix}", _field_of(node, value), f"tiers.{tier}.{name}")

    def _put(self, name: str, field: forms.Field, path: str) -> None:
        self.fields[name] = field
        self.paths = {**self.paths, path: name}

    def tiers(self) -> Iterator[TierFields]:
        """Yield each tier's fields for the template."""
        for tier, properties in self._tiers.items():
            special = {f"{tier}-capacity_{part}" for part in ("mode", "percent", "bytes")}
            yield TierFields(
                title=properties["capacity"]["tier_title"],
                description=properties["capacity"]["tier_description"],
                mode=self[f"{tier}-capacity_mode"],
                share=self[f"{tier}-capacity_percent"],
                size=self[f"{tier}-capacity_bytes"],
                others=[self[n] for n in self.fields if n.startswith(f"{tier}-") and n not in special],
            )

    def clean(self) -> dict[str, Any]:
        """Ask for the capacity that was chosen."""
        data = super().clean() or {}
        for tier in self._tiers:
            mode = data.get(f"{tier}-capacity_mode")
            wanted = f"{tier}-capacity_{'bytes' if mode == BYTES else 'percent'}"
            if wanted not in self.errors and data.get(wanted) is None:
                self.add_error(wanted, "Give a value here, or choose the other way.")
        return data

    def document(self) -> dict[str, Any]:
        """Return the cleaned fields as a policy document, not yet checked by `kvcache.policy`."""
        data = self.cleaned_data
        tiers: dict[str, Any] = {}
        for tier, properties in self._tiers.items():
            by_bytes = data[f"{tier}-capacity_mode"] == BYTES
            tiers[tier] = {
                "capacity": {BYTES: data[f"{tier}-capacity_bytes"]}
                if by_bytes
                else {SHARE: _ratio(data[f"{tier}-capacity_percent"])}
            }
            for name, node in properties.items():
                if name == "capacity":
                    continue
                is_ratio = node.get("unit") == "ratio"
                value = data[f"{tier}-{name}_percent" if is_ratio else f"{tier}-{name}"]
                tiers[tier][name] = _ratio(value) if is_ratio else value
        return {"version": VERSION, "tiers": tiers}


def _tiers_in(schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each tier's name and its properties; the capacity's entry also carries the tier's own title and help."""
    for tier, node in schema["$defs"]["Tiers"]["properties"].items():
        properties = dict(_resolved(schema, node)["properties"])
        properties["capacity"] = {
            **properties["capacity"],
            "tier_title": node.get("title", tier),
            "tier_description": node.get("description", ""),
        }
        yield tier, properties


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = node.get("$ref") or node["allOf"][0]["$ref"]
    found: Mapping[str, Any] = schema["$defs"][reference.rsplit("/", 1)[1]]
    return found


def _field_of(node: Mapping[str, Any], value: Any) -> forms.Field:
    """Return the form field of one schema property, with its range and unit."""
    common: dict[str, Any] = {"label": node["title"], "help_text": node["description"], "initial": value}
    if "enum" in node:
        return forms.ChoiceField(choices=[(choice, choice) for choice in node["enum"]], **common)
    if node.get("type") == "boolean":
        return forms.BooleanField(required=False, **common)
    if node.get("unit") == "ratio":
        return _percent_field(node, value)
    kind = _number_in(node)
    limits: dict[str, Any] = {"min_value": kind.get("minimum"), "max_value": kind.get("maximum")}
    common["help_text"] += _range_text(kind, 1)
    number = forms.IntegerField if kind["type"] == "integer" else forms.FloatField
    return with_unit(number(required="anyOf" not in node, **limits, **common), node.get("unit") or "")


def _percent_field(node: Mapping[str, Any], value: float) -> forms.Field:
    kind = _number_in(node)
    field = forms.DecimalField(
        label=node["title"],
        help_text=node["description"] + _range_text(kind, _PERCENT),
        initial=_shown(value),
        min_value=Decimal(0),
        max_value=Decimal(str(kind.get("maximum", 1))) * _PERCENT,
        max_digits=24,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    return with_unit(field, "%")


def _number_in(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a property that describes its number; a property that may be null has it in `anyOf`."""
    found: Mapping[str, Any] = next((part for part in node.get("anyOf", ()) if part["type"] != "null"), node)
    return found


def _range_text(kind: Mapping[str, Any], factor: Decimal | int) -> str:
    """Return the allowed range as a sentence, or nothing where there is none."""
    low = kind.get("minimum", kind.get("exclusiveMinimum"))
    high = kind.get("maximum", kind.get("exclusiveMaximum"))
    if low is None or high is None:
        return ""
    above = "above " if "exclusiveMinimum" in kind else ""
    return f" Range: {above}{_plain(low, factor)} to {_plain(high, factor)}."


def _plain(number: float, factor: Decimal | int) -> str:
    return f"{(Decimal(str(number)) * factor).normalize():f}"


def _shown(ratio: float) -> str:
    """Return a ratio as percent without trailing zeros."""
    return f"{(Decimal(repr(ratio)) * _PERCENT).normalize():f}"


def _ratio(percent: Decimal) -> float:
    return float(percent / _PERCENT)
