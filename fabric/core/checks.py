"""Checks of short texts that services share. Each returns the cleaned value or adds to a list of problems."""

import re
import unicodedata

from fabric.core.errors import Problem

MAX_NAME_CHARS = 100
MAX_TEXT_CHARS = 2000
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def checked_line(
    value: str, field: str, problems: list[Problem], *, max_chars: int = MAX_NAME_CHARS, required: bool = True
) -> str:
    """Return one line of text without blanks around it; control characters and overlong texts are problems."""
    value = unicodedata.normalize("NFC", value.strip())
    if required and not value:
        problems.append(Problem(field, "it is empty", "give a short text"))
    elif not value.isprintable():
        problems.append(Problem(field, "it holds control characters or line breaks", "give one line of plain text"))
    elif len(value) > max_chars:
        problems.append(Problem(field, f"it has {len(value)} characters", f"give at most {max_chars}"))
    return value


def checked_text(value: str, field: str, problems: list[Problem], *, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return a text of any number of lines; NUL characters and overlong texts are problems."""
    value = unicodedata.normalize("NFC", value.strip())
    if "\x00" in value:
        problems.append(Problem(field, "it holds NUL characters", "give plain text"))
    elif len(value) > max_chars:
        problems.append(Problem(field, f"it has {len(value)} characters", f"give at most {max_chars}"))
    return value


def checked_slug(value: str, field: str, problems: list[Problem]) -> str:
    """Return a slug; anything but lower-case letters, digits and single hyphens is a problem."""
    value = value.strip()
    if not _SLUG.fullmatch(value) or len(value) > MAX_NAME_CHARS:
        remedy = f"give at most {MAX_NAME_CHARS} lower-case letters, digits and single hyphens"
        problems.append(Problem(field, "it is not a slug", remedy))
    return value
