"""Template tags: icons, badges, times, sizes, facts, form fields, usage bars, commands."""

from datetime import datetime, timedelta
from typing import Any

from django import template
from django.forms import BoundField, CheckboxInput, RadioSelect
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fabric.core.web import text
from fabric.core.web.request import zone_of

register = template.Library()


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """Return an icon of the sprite; without a label it is hidden from screen readers, since words stand beside it."""
    address = f"{static('img/icons.svg')}#{name}"
    if label:
        return format_html('<svg class="icon" role="img" aria-label="{}"><use href="{}"/></svg>', label, address)
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}"/></svg>', address)


@register.simple_tag
def state(value: object, label: str = "") -> SafeString:
    """Return the badge of a state."""
    return text.state_badge(str(value), label)


@register.simple_tag
def badge(label: str, tone: str = "idle") -> SafeString:
    """Return a badge of a given tone: ok, info, warn, bad, idle."""
    return text.badge(label, tone=tone)


@register.simple_tag(takes_context=True)
def ago(context: template.Context, at: datetime | None, never: str = "never") -> str:
    """Return how long ago a moment was, kept current by a script."""
    return text.ago(at, zone_of(context["request"].user)) if at else never


@register.simple_tag(takes_context=True)
def moment(context: template.Context, at: datetime | None, never: str = "never") -> str:
    """Return a moment in the reader's time zone."""
    return text.moment(at, zone_of(context["request"].user)) if at else never


@register.filter
def bytes_text(size_bytes: float | None) -> str:
    """Return a size in binary units."""
    return text.bytes_text(size_bytes)


@register.filter
def percent(ratio: float | None) -> str:
    """Return a ratio as a percentage with one decimal."""
    return "–" if ratio is None else f"{100 * ratio:.1f} %"


@register.filter
def duration(value: float | timedelta | None) -> str:
    """Return a duration (seconds or timedelta) in its largest units."""
    if value is None:
        return "–"
    return text.duration_text(value.total_seconds() if isinstance(value, timedelta) else value)


@register.filter
def words(value: object) -> str:
    """Return a code word as words: `roll_back` becomes `roll back`."""
    return str(value).replace("_", " ")


@register.filter
def short_digest(digest: str) -> str:
    """Return the first characters of a `sha256:…` digest: enough to tell two apart."""
    return digest.removeprefix("sha256:")[:12] or "–"


@register.filter
def code_marks(help_text: str) -> SafeString:
    """Return a help text in which `backticks` mark what is to be typed, as safe HTML."""
    parts = str(help_text).split("`")
    rows = (("code" if index % 2 else "span", part) for index, part in enumerate(parts) if part)
    return format_html_join("", "<{0}>{1}</{0}>", rows)


@register.filter
def field_names(changed: dict[str, Any]) -> str:
    """Return the names of changed fields, or how many there are when they would fill more than a line."""
    names = ", ".join(name.replace("_", " ") for name in changed)
    return names if len(names) <= 60 else f"{len(changed)} fields"


@register.filter
def yesno_word(status: str) -> str:
    """Return yes or no for a condition's true or false."""
    return {"true": "yes", "false": "no"}.get(status, status)


@register.filter
def condition_tone(status: str) -> str:
    """Return the tone of an agent's condition: what it reports as true is something to look at."""
    return {"true": "warn", "false": "ok"}.get(status, "idle")


@register.inclusion_tag("components/fact.html")
def fact(label: str, value: object = None, *, mono: bool = False, url: str = "") -> dict[str, Any]:
    """Show one fact of a definition list; an unknown one is a dash, never zero or a guess."""
    return {"label": label, "value": value, "mono": mono, "url": url, "unknown": value is None or value == ""}


@register.inclusion_tag("components/field.html")
def field(bound: BoundField) -> dict[str, Any]:
    """Show a form field: label, control, unit, help, errors."""
    widget = bound.field.widget
    return {
        "field": bound,
        "unit": getattr(bound.field, "unit", ""),
        "check": isinstance(widget, CheckboxInput),
        "choices": isinstance(widget, RadioSelect),
        "optional": not (bound.field.required or getattr(bound.field, "sometimes_required", False)),
    }


@register.inclusion_tag("components/usage.html")
def usage(tier: str, used_bytes: float | None, capacity_bytes: float | None) -> dict[str, Any]:
    """Show how full a tier is."""
    known = used_bytes is not None and capacity_bytes is not None
    return {
        "tier": tier,
        "used": used_bytes,
        "capacity": capacity_bytes,
        "known": known,
        "percent": round(100 * used_bytes / capacity_bytes, 1) if known and capacity_bytes and used_bytes else 0,
    }


@register.inclusion_tag("components/command.html")
def command(line: str, label: str = "Copy") -> dict[str, Any]:
    """Show a command with a button that copies it."""
    return {"line": line, "label": label}
