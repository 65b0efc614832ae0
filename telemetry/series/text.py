"""The text form of a series, `name{label="value"}`: parsed with limits, written canonically (labels sorted)."""

import re
from collections.abc import Mapping

MAX_LINE_CHARS = 16_384
MAX_LABELS = 64
MAX_NAME_CHARS = 256
MAX_VALUE_CHARS = 1024

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_:][a-zA-Z0-9_:]*)|{_QUOTED})\s*(?:(=)\s*{_QUOTED}\s*)?(,|\}})")
_CLOSE = re.compile(r"\s*\}")
_ESCAPE = re.compile(r'\\[\\n"]')
_PLAIN = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}


class SeriesTextError(ValueError):
    """Text that is no series of the exposition format."""


class SeriesLimitError(SeriesTextError):
    """A series with too many labels, or with a label that is too long."""


def parse_series(line: str) -> tuple[str, dict[str, str], int]:
    """Return metric name, labels and the position behind the series at the start of `line`.

    Reads the text format 0.0.4 and the quoted UTF-8 names of its successor (`{"name", label="value"}`).

    Raises:
        SeriesLimitError: more than `MAX_LABELS`, or a label past `MAX_NAME_CHARS` or `MAX_VALUE_CHARS`.
        SeriesTextError: anything else that is not a series.
    """
    found = _NAME.match(line)
    name = found[0] if found else ""
    end = found.end() if found else 0
    brace = end
    while line[brace : brace + 1] in (" ", "\t"):
        brace += 1
    if line[brace : brace + 1] != "{":
        if not name:
            raise SeriesTextError("no metric name")
        return name, {}, end
    labels, end = _parse_labels(line, brace + 1)
    if "__name__" in labels:
        if name:
            raise SeriesTextError("metric name given twice")
        name = labels.pop("__name__")
    if not name:
        raise SeriesTextError("no metric name")
    if len(name) > MAX_NAME_CHARS:
        raise SeriesLimitError("metric name too long")
    return name, labels, end


def series_text(name: str, labels: Mapping[str, str]) -> str:
    """Return the canonical text: labels sorted by name, values escaped. The identity of a series."""
    if not labels:
        return name
    inner = ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels))
    return f"{name}{{{inner}}}"


def _parse_labels(line: str, start: int) -> tuple[dict[str, str], int]:
    labels: dict[str, str] = {}
    closed = _CLOSE.match(line, start)
    if closed:
        return labels, closed.end()
    while True:
        found = _LABEL.match(line, start)
        if not found:
            raise SeriesTextError("malformed labels")
        plain, quoted, equals, value, delimiter = found.groups()
        key = plain if plain is not None else _unescaped(quoted)
        if not equals:
            if plain is not None:
                raise SeriesTextError("label without a value")
            key, value = "__name__", quoted
        if key in labels:
            raise SeriesTextError("label given twice")
        labels[key] = _unescaped(value)
        if len(labels) > MAX_LABELS or len(key) > MAX_NAME_CHARS or len(labels[key]) > MAX_VALUE_CHARS:
            raise SeriesLimitError("too many or too long labels")
        start = found.end()
        if delimiter == "}":
            return labels, start
        closed = _CLOSE.match(line, start)  # a trailing comma is legal
        if closed:
            return labels, closed.end()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _PLAIN[found[0]], text) if "\\" in text else text


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
