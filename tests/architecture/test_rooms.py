"""The rules of the house: where writes live, how large a room may be, what is not done at all."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("kvcache", "agent", "fabric", "telemetry", "bench")
MAX_FILE_LINES = 420
MAX_FUNCTION_LINES = 50
WRITERS = {"save", "create", "bulk_create", "update", "bulk_update", "delete", "get_or_create", "update_or_create"}
WRITE_ROOMS = re.compile(r"(^|/)(services(/\w+)?|series/\w+|migrations/\w+)\.py$")


def _sources() -> Iterator[tuple[str, ast.Module, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" in path.parts:
                continue
            text = path.read_text()
            yield str(path.relative_to(ROOT)), ast.parse(text), text


def test_rooms_stay_small() -> None:
    found = [
        f"{name}: {text.count(chr(10))} lines" for name, _, text in _sources() if text.count("\n") > MAX_FILE_LINES
    ]
    for name, tree, _ in _sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    found.append(f"{name}:{node.lineno} {node.name}: {length} lines")
    assert not found, "two things live in one room:\n" + "\n".join(found)


def test_only_services_write_to_the_database() -> None:
    found = []
    for name, tree, _ in _sources():
        if not name.startswith(("fabric/", "telemetry/")) or WRITE_ROOMS.search(name):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITERS:
                chain = ast.unparse(node.func.value)
                if "objects" in chain or (node.func.attr == "save" and chain != "self"):
                    found.append(f"{name}:{node.lineno} {ast.unparse(node.func)}(…)")
    assert not found, "writes outside services:\n" + "\n".join(found)


def test_no_signals_star_imports_or_pickles() -> None:
    found = []
    for name, tree, text in _sources():
        if "django.dispatch" in text or "post_save" in text or "pre_save" in text:
            found.append(f"{name}: signals")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                found.append(f"{name}:{node.lineno} star import")
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                if any(module in {"pickle", "marshal", "shelve", "dill"} for module in modules):
                    found.append(f"{name}:{node.lineno} pickle")
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == "save" and "models." in ast.unparse(node):
                        found.append(f"{name}:{item.lineno} save() override")
    assert not found, "\n".join(found)


def test_every_package_says_what_it_owns() -> None:
    found = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
        if not {"migrations", "management", "commands"} & set(path.parts)
        and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not found, f"packages without a docstring: {found}"


def test_templates_hold_no_inline_script_or_foreign_address() -> None:
    found = []
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text()
        if re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", text) or re.search(r"\son\w+=\"", text):
            found.append(f"{path.name}: inline script")
        if re.search(r"(src|href)=\"https?://", text):
            found.append(f"{path.name}: foreign address")
    assert not found, "\n".join(found)


def test_nothing_committed_names_a_machine_path() -> None:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    found = []
    for name in listing.stdout.splitlines():
        path = ROOT / name
        if (
            not path.is_file()
            or path.suffix in {".png", ".mo", ".ico", ".gz"}
            or name == "tests/architecture/test_rooms.py"
        ):
            continue
        if re.search(r"(?<![\w.])/(work|root|farm)/[\w.]", path.read_text(errors="replace")):
            found.append(name)
    assert not found, f"paths of one machine in {found}"
