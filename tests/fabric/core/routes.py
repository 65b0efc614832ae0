"""Every route of the site, read off the resolver, so that no test can forget one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

_CONVERTED = re.compile(r"<(?:(?P<kind>\w+):)?(?P<name>\w+)>")
_NAMED_GROUP = re.compile(r"\(\?P<(\w+)>[^)]*\)")
EXAMPLES = {"uuid": "11111111-1111-4111-8111-111111111111", "int": "1", "slug": "x", "str": "x", "path": "x"}


@dataclass(frozen=True)
class Route:
    """One route: its template, its view, and for view sets the methods that lead somewhere."""

    template: str
    view: Any

    @property
    def methods(self) -> list[str]:
        """Return the methods that the view takes (lower case)."""
        actions = getattr(self.view, "actions", None)
        if actions:
            return [method for method in actions if method != "head"]
        cls = getattr(self.view, "cls", None) or getattr(self.view, "view_class", None)
        names = ("get", "post", "put", "patch", "delete")
        return [name for name in names if cls is None or hasattr(cls, name)]

    @property
    def module(self) -> str:
        """Return where the view stands."""
        cls = getattr(self.view, "cls", None) or getattr(self.view, "view_class", None) or self.view
        return str(getattr(cls, "__module__", ""))

    def path(self, **values: Any) -> str:
        """Return the address with these values, or with examples that exist nowhere."""
        text = _CONVERTED.sub(
            lambda m: str(values.get(m["name"], EXAMPLES.get(m["kind"] or "str", "x"))), self.template
        )
        return _NAMED_GROUP.sub("x", text).replace("^", "").replace("$", "").replace("\\.", ".").replace("\\Z", "")


def routes() -> list[Route]:
    """Return every route of the site."""
    return list(_walk(get_resolver().url_patterns, "/"))


def _walk(patterns: list[Any], prefix: str) -> Iterator[Route]:
    for pattern in patterns:
        template = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, template)
        elif isinstance(pattern, URLPattern):
            yield Route(template, pattern.callback)
