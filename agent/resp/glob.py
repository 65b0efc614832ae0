"""Redis glob patterns (`*`, `?`, `[a-c]`, `[^a]`, backslash) without backtracking that could explode."""

MAX_PATTERN_BYTES = 512


def matches(pattern: bytes, text: bytes) -> bool:
    """Tell whether `text` as a whole matches `pattern`; at most len(pattern) * len(text) steps."""
    at = here = 0
    star: int | None = None
    resume = 0
    while here < len(text):
        if at < len(pattern) and pattern[at] == 0x2A:  # '*': take nothing for now, come back here on failure
            star, resume = at, here
            at += 1
            continue
        end = _one(pattern, at, text[here]) if at < len(pattern) else -1
        if end >= 0:
            at, here = end, here + 1
        elif star is not None:
            resume += 1
            at, here = star + 1, resume
        else:
            return False
    return pattern[at:].strip(b"*") == b""


def literal_prefix(pattern: bytes) -> bytes:
    """Return the bytes with which every match begins."""
    for index, byte in enumerate(pattern):
        if byte in b"*?[\\":
            return pattern[:index]
    return pattern


def _one(pattern: bytes, at: int, byte: int) -> int:
    """Return where the pattern goes on if its element at `at` matches `byte`, else -1."""
    first = pattern[at]
    if first == 0x3F:  # '?'
        return at + 1
    if first == 0x5B:  # '['
        return _class(pattern, at + 1, byte)
    if first == 0x5C and at + 1 < len(pattern):  # '\'
        at += 1
        first = pattern[at]
    return at + 1 if first == byte else -1


def _class(pattern: bytes, at: int, byte: int) -> int:
    negate = pattern[at : at + 1] == b"^"
    at += negate
    found = False
    while at < len(pattern) and pattern[at] != 0x5D:  # ']'
        if pattern[at] == 0x5C and at + 1 < len(pattern):
            at += 1
        low = high = pattern[at]
        if pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern) and pattern[at + 2] != 0x5D:
            high = pattern[at + 2]
            at += 2
        found = found or min(low, high) <= byte <= max(low, high)
        at += 1
    return min(at + 1, len(pattern)) if found != negate else -1
