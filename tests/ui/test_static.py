"""Templates, style sheets, scripts and icons fit together; colours can be read. No browser, no database."""

import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.template import loader

from tests.conftest import ROOT

TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SHEETS = sorted((ROOT / "static" / "css").glob("*.css"))
SCRIPTS = sorted((ROOT / "static" / "js").rglob("*.js"))
LIGHT, DARK = 0, 1


def _text(paths: list[Path]) -> str:
    return "\n".join(path.read_text() for path in paths)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_template_compiles_and_holds_no_inline_style_or_script(path: Path) -> None:
    loader.get_template(str(path.relative_to(ROOT / "templates")))
    text = path.read_text()
    assert not re.search(r"\sstyle\s*=", text)
    assert not re.search(r"\son[a-z]+\s*=", text)
    assert not re.search(r"<style", text)
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert "|safe" not in text
    assert "autoescape" not in text


def test_files_stay_small() -> None:
    long = {
        p.name: p.read_text().count("\n") for p in [*SHEETS, *SCRIPTS, *TEMPLATES] if p.read_text().count("\n") > 420
    }
    assert not long


def test_icons_that_pages_name_are_in_the_sprite() -> None:
    known = set(re.findall(r'<symbol id="([\w-]+)"', (ROOT / "static/img/icons.svg").read_text()))
    used = set(re.findall(r'{% icon "([\w-]+)"', _text(TEMPLATES)))
    sources = [ROOT / "fabric/core/web/nav.py", ROOT / "fabric/inventory/nouns.py", ROOT / "telemetry/views.py"]
    used |= {word for word in re.findall(r'"([a-z]+)"', _text(sources)) if word in known}
    assert used <= known
    assert known - used <= {"brand", "play", "stop", "back", "pause", "plus", "lock"}, "icons that nobody uses"


def test_tokens_that_style_sheets_and_scripts_use_are_defined() -> None:
    defined = set(re.findall(r"(--[\w-]+):", _text(SHEETS)))
    used = set(re.findall(r"var\((--[\w-]+)\)", _text(SHEETS)))
    named = set(re.findall(r'"(--[\w-]+?)"', _text(SCRIPTS)))
    charts = set(re.findall(r'"(--[\w-]+)"', (ROOT / "telemetry/figures/overview.py").read_text()))
    assert used | named | charts <= defined


def test_colours_stand_only_among_the_tokens() -> None:
    others = [path for path in SHEETS if path.name != "tokens.css"]
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(", _text(others))


def test_modules_import_what_exists_and_nothing_foreign() -> None:
    for path in SCRIPTS:
        for target in re.findall(r'from "([^"]+)"|import "([^"]+)"', path.read_text()):
            name = target[0] or target[1]
            assert name.startswith("."), f"{path.name} imports {name}"
            assert (path.parent / name).resolve().is_file(), f"{path.name} imports {name}"
        assert not re.search(r"\beval\(|new Function|https?://(?!www\.w3\.org)", path.read_text()), path.name


@pytest.mark.parametrize("path", ["plotly/plotly.min.js", "django_htmx/htmx-2.min.js", "js/live.js", "css/tokens.css"])
def test_what_pages_load_is_served_by_us(path: str) -> None:
    assert finders.find(path)


def test_nothing_else_of_the_plotly_package_is_served() -> None:
    assert not finders.find("plotly/datasets/iris.csv.gz")
    assert not finders.find("plotly/../plotly.min.js")


def test_plotly_may_not_send_data_anywhere() -> None:
    script = (ROOT / "static/js/live/chart.js").read_text()
    for setting in ("showSendToCloud: false", 'plotlyServerURL: ""', "displaylogo: false"):
        assert setting in script


def _tokens() -> dict[str, tuple[str, str]]:
    text = (ROOT / "static/css/tokens.css").read_text()
    pairs = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", text)
    return {name: (light, dark) for name, light, dark in pairs}


def _luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_on_what_it_stands_on(scheme: int) -> None:
    tokens = {name: pair[scheme] for name, pair in _tokens().items()}
    surfaces = ["canvas", "surface", "surface-sunken", "surface-hover"]
    pairs = [(text, surface) for text in ("text", "text-muted", "accent") for surface in surfaces]
    pairs += [(tone, f"{tone}-soft") for tone in ("ok", "warn", "bad", "info", "idle")]
    pairs += [(tone, "surface") for tone in ("ok", "warn", "bad", "info")]
    pairs += [("on-accent", "accent"), ("on-accent", "accent-hover"), ("accent", "accent-soft"), ("text", "bad-soft")]
    low = {
        f"{a} on {b}": round(_contrast(tokens[a], tokens[b]), 2)
        for a, b in pairs
        if _contrast(tokens[a], tokens[b]) < 4.5
    }
    assert not low


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_and_edges_can_be_told_from_their_ground(scheme: int) -> None:
    tokens = {name: pair[scheme] for name, pair in _tokens().items()}
    lines = [name for name in tokens if name.startswith("series-")] + ["border-strong", "focus", "mark"]
    low = {
        name: round(_contrast(tokens[name], tokens["surface"]), 2)
        for name in lines
        if _contrast(tokens[name], tokens["surface"]) < 3
    }
    assert not low
