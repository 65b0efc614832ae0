"""Values as people read them: sizes, rates, ages, states. Pure functions from values to text or safe HTML."""

import math
from datetime import datetime, tzinfo

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

_TONES = {
    "ok": ("live", "active", "in_sync", "succeeded", "discovered"),
    "info": ("running", "pushing", "applied", "pending", "planned", "reconnecting", "progressing"),
    "warn": ("stale", "paused", "maintenance", "drifted", "locked", "missing"),
    "bad": ("unreachable", "failed", "refused", "denied", "revoked", "error"),
}
TONE_OF_STATE = {state: tone for tone, states in _TONES.items() for state in states}
"""Which colour a state's badge has; a state that is not listed is grey."""


def bytes_text(size_bytes: float | None) -> str:
    """Return a size in binary units with three significant digits; a dash for an unknown size."""
    if size_bytes is None or not math.isfinite(size_bytes):
        return "–"
    value, unit = float(size_bytes), 0
    while abs(value) >= 1024 and unit < len(_BINARY) - 1:
        value /= 1024
        unit += 1
    if unit == 0:
        return f"{value:.0f} B"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return (
        f"{value:.{digits}f}".rstrip("0").rstrip(".") + f" {_BINARY[unit]}"
        if digits
        else f"{value:.0f} {_BINARY[unit]}"
    )


def duration_text(seconds: float) -> str:
    """Return a duration in its one or two largest units."""
    whole = int(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    for size, unit, below, lower in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit} {rest} {lower}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def moment_text(at: datetime, zone: tzinfo) -> str:
    """Return a moment in `zone` to the second, with the zone's name."""
    return timezone.localtime(at, zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def ago(at: datetime, zone: tzinfo) -> SafeString:
    """Return how long ago `at` was, as an element that scripts keep current; its title is the moment itself."""
    seconds = (timezone.now() - at).total_seconds()
    text = f"{duration_text(seconds)} ago" if seconds >= 0 else f"in {duration_text(-seconds)}"
    return format_html('<time datetime="{}" title="{}" data-ago>{}</time>', at.isoformat(), moment_text(at, zone), text)


def moment(at: datetime, zone: tzinfo) -> SafeString:
    """Return the moment as an element."""
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), moment_text(at, zone))


def badge(label: str, *, tone: str = "", tone_value: str = "") -> SafeString:
    """Return a badge: a word in a colour, the colour given or that of a state."""
    return format_html(
        '<span class="badge" data-tone="{}">{}</span>', tone or TONE_OF_STATE.get(tone_value, "idle"), label
    )


def state_badge(state: str, label: str = "") -> SafeString:
    """Return the badge of a state; its label is the state's own word where none is given."""
    return badge(label or state.replace("_", " "), tone_value=state)
