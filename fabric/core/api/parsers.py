"""JSON bodies with limits. REST framework's own parser reads whatever it is sent, to the end."""

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser

MAX_BODY_BYTES = 1 << 20


class TooLarge(APIException):
    """A body above the limit."""

    status_code = 413
    default_detail = f"The body is larger than {MAX_BODY_BYTES} bytes."


class BoundedJSONParser(JSONParser):
    """Strict JSON of at most 1 MiB: UTF-8, no NaN, no name twice in one object."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the document. Raises `ParseError` (400) or `TooLarge` (413)."""
        data = stream.read(MAX_BODY_BYTES + 1)
        if len(data) > MAX_BODY_BYTES:
            raise TooLarge
        try:
            return json.loads(data.decode(), parse_constant=_no_constant, object_pairs_hook=_no_name_twice)
        except UnicodeDecodeError:
            raise ParseError("The body is not UTF-8.") from None
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return document
