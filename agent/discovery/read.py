"""Read one fact of sysfs or procfs, or None: the only place of this package that touches files."""

import re
from pathlib import Path

MAX_FACT_BYTES = 1 << 20
"""A fact is a line, /proc/cpuinfo of a large host some hundred KiB; more is not read."""
MAX_TEXT_CHARS = 255

ABSENT = frozenset(
    {
        "", "-", "n/a", "na", "none", "null", "nan", "unknown", "not available", "not specified", "not applicable",
        "version not available", "insufficient permissions", "uninitialized", "(null)",
    }
)  # fmt: skip
PLACEHOLDERS = frozenset(
    {
        "to be filled by o.e.m.", "to be filled by oem", "default string", "default", "o.e.m.", "oem", "empty",
        "invalid", "system manufacturer", "system product name", "system serial number", "system version",
        "chassis serial number", "base board serial number", "no asset tag", "0123456789", "123456789", "1234567890",
        "sn: 00000",
    }
)  # fmt: skip
"""What firmware says where its maker was meant to write something."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ufffd]+")
_ONE_CHARACTER = re.compile(r"(\S)\1*")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
"""Up to 18 digits: what is longer is one of the field's sentinels, such as 9223372036854775794."""


def read_bytes(path: Path) -> bytes | None:
    """Return the first `MAX_FACT_BYTES` of a file; None when it does not exist or cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FACT_BYTES)
    except OSError:
        return None


def read_raw(path: Path) -> str | None:
    """Return a file's text as it is, None when it cannot be read; bytes that are no UTF-8 are replaced."""
    data = read_bytes(path)
    return None if data is None else data.decode(errors="replace")


def clean(text: str | None) -> str | None:
    """Strip padding, NUL and control characters; None for every spelling of an absent value."""
    if text is None:
        return None
    stripped = " ".join(_CONTROL.sub(" ", text).split(" ")).strip()[:MAX_TEXT_CHARS].strip()
    return None if stripped.lower() in ABSENT else stripped


def clean_identity(text: str | None) -> str | None:
    """`clean`, and None also for a maker's placeholder such as `To Be Filled By O.E.M.` or `00000000`."""
    value = clean(text)
    if value is None or value.lower() in PLACEHOLDERS or _ONE_CHARACTER.fullmatch(value):
        return None
    return value


def read_text(path: Path) -> str | None:
    """Return a file's text, cleaned."""
    return clean(read_raw(path))


def read_identity(path: Path) -> str | None:
    """Return a file's text where it names one thing (serial number, vendor, product), else None."""
    return clean_identity(read_raw(path))


def read_int(path: Path) -> int | None:
    """Return a file's decimal integer; None for anything else."""
    text = read_text(path)
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def read_count(path: Path) -> int | None:
    """Return a file's integer where it is not negative; None for anything else."""
    value = read_int(path)
    return value if value is not None and value >= 0 else None


def link_name(path: Path) -> str | None:
    """Return the last part of what a symbolic link points to; None when there is no link."""
    try:
        return path.readlink().name
    except OSError:
        return None


def entries(directory: Path) -> list[Path]:
    """Return the entries of a directory, sorted with numbers in order (nvme2 before nvme10); none when it is absent."""
    try:
        found = list(directory.iterdir())
    except OSError:
        return []
    return sorted(found, key=lambda path: [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in _split(path.name)])


def _split(name: str) -> list[str]:
    return [part for part in re.split(r"([0-9]+)", name) if part]
