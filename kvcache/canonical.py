"""Canonical JSON: one byte string for one document, so that a digest names a document and a signature covers it."""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Return `value` as UTF-8 JSON with sorted keys, no white space and no NaN or infinity.

    Raises:
        ValueError: a float is NaN or infinite.
        TypeError: a value has no JSON form.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def sha256_digest(value: Any) -> str:
    """Return `sha256:<64 hex digits>` of the canonical JSON of `value`."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()
