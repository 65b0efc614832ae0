"""Policy documents as YAML or JSON text, from people and files: only plain values, no surprises of YAML 1.1."""

import json
import re
from typing import Any

import yaml

from kvcache.policy.document import PolicyDocument
from kvcache.policy.parse import parse_policy
from kvcache.policy.problems import FieldProblem, PolicyError

MAX_TEXT_BYTES = 64 * 1024


def load_policy_text(text: str | bytes) -> PolicyDocument:
    """Return the policy in `text`, which is JSON if it begins with a brace and YAML otherwise (UTF-8, at most 64 KiB).

    Raises:
        PolicyError: not text, too long, not well formed, anchors or aliases, a name given twice, or a bad policy.
    """
    decoded = _decode(text)
    load = _load_json if decoded.lstrip().startswith("{") else _load_yaml
    try:
        value = load(decoded)
    except RecursionError:
        raise _refused("the text nests too deeply", "a policy needs three levels") from None
    if not isinstance(value, dict):
        raise _refused("the text holds no mapping of fields", "begin with version: and tiers:")
    return parse_policy(value)


def _decode(text: str | bytes) -> str:
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_TEXT_BYTES:
        raise _refused(f"the text has {size} bytes", f"a policy has at most {MAX_TEXT_BYTES}")
    try:
        return text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        raise _refused("the text is not UTF-8", "save it as UTF-8") from None


def _load_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except PolicyError:
        raise
    except json.JSONDecodeError as error:
        raise _refused(f"line {error.lineno}, column {error.colno}: {error.msg}", "repair the JSON") from None
    except ValueError:
        raise _refused("a number has too many digits", "write a number of ordinary size") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _refused(f"the field {name[:60]!r} is given twice", "give it once")
        found[name] = value
    return found


def _load_yaml(text: str) -> Any:
    try:
        # A subclass of SafeLoader which knows even fewer types: nothing here can construct an object.
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise _refused(f"{where}{error.problem or 'not well formed'}", "repair the YAML") from None
    except PolicyError:
        raise
    except (yaml.YAMLError, ValueError):
        raise _refused("the text is not well-formed YAML", "repair the YAML") from None


def _refused(problem: str, remedy: str) -> PolicyError:
    return PolicyError([FieldProblem("", problem, remedy)])


class _PlainLoader(yaml.SafeLoader):
    """YAML with JSON's scalars only: `on`, `1:30`, `010` and dates stay texts; a number is a number to everyone."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise _refused(f"line {line}: anchors and aliases are not allowed here", "write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None or name == "<<" or name in names:
                problem = "a field name is not a plain word" if name in (None, "<<") else f"{name!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            names.add(name)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"~|null|", ["~", "n", ""]),
    ("tag:yaml.org,2002:bool", r"true|false", ["t", "f"]),
    ("tag:yaml.org,2002:int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    ("tag:yaml.org,2002:float", r"-?(?:0|[1-9][0-9]*)\.[0-9]+", list("-0123456789")),
    ("tag:yaml.org,2002:float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[eE][-+]?[0-9]+", list("-0123456789")),
):
    _PlainLoader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)
