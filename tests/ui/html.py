"""Reads a page as a browser's parser would, and says what is wrong with it. Independent of Django's templates."""

import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
SVG = frozenset({"path", "use", "circle", "rect"})
LABELLED = frozenset({"input", "select", "textarea"})
_REFERENCES = ("for", "aria-labelledby", "aria-describedby", "popovertarget")


@dataclass
class Element:
    """An element: its attributes, its own and inner text, its parent."""

    tag: str
    attrs: dict[str, str]
    parent: "Element | None" = None
    text: str = ""

    def inside(self, tag: str) -> bool:
        """Tell whether an ancestor has this tag."""
        up = self.parent
        while up is not None:
            if up.tag == tag:
                return True
            up = up.parent
        return False


@dataclass
class Document(HTMLParser):
    """A parsed page. `faults` holds what does not nest."""

    source: str
    elements: list[Element] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []
        self.feed(self.source)
        self.close()
        if self._open:
            self.faults.append(f"never closed: {[element.tag for element in self._open]}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.faults.append(f"<{tag}> has an attribute twice: {names}")
        element = Element(tag, {k: v or "" for k, v in attrs}, self._open[-1] if self._open else None)
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            where = self._open[-1].tag if self._open else "nothing"
            self.faults.append(f"</{tag}> closes <{where}> (line {self.getpos()[0]})")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, *tags: str) -> list[Element]:
        """Return the elements with one of these tags."""
        return [element for element in self.elements if element.tag in tags]

    def first(self, tag: str) -> Element | None:
        """Return the first element with this tag."""
        return next(iter(self.all(tag)), None)


def faults_of(source: str, *, whole: bool = True) -> list[str]:
    """Return what is wrong with a page (`whole`) or a part of one."""
    page = Document(source)
    faults = list(page.faults)
    ids = Counter(e.attrs["id"] for e in page.elements if "id" in e.attrs)
    faults += [f"id {name!r} occurs {count} times" for name, count in ids.items() if count > 1]
    for element in page.elements:
        faults += _element_faults(element, page, ids if whole else None)
    if whole:
        faults += _page_faults(page)
    return faults


def _page_faults(page: Document) -> list[str]:
    faults = []
    html, title = page.first("html"), page.first("title")
    if html is None or not re.fullmatch(r"[a-z]{2}(-[a-z]+)?", html.attrs.get("lang", "")):
        faults.append("no lang on <html>")
    if title is None or not title.text.split("·")[0].strip():
        faults.append("no title")
    if len(page.all("h1")) != 1:
        faults.append(f"{len(page.all('h1'))} h1")
    if len(page.all("main")) != 1:
        faults.append("not exactly one <main>")
    if not page.source.lstrip().lower().startswith("<!doctype html>"):
        faults.append("no doctype")
    return faults


def _element_faults(element: Element, page: Document, ids: Counter[str] | None) -> list[str]:
    tag, attrs = element.tag, element.attrs
    faults = []
    if "style" in attrs:
        faults.append(f"<{tag}> has a style attribute")
    if any(name.startswith("on") for name in attrs):
        faults.append(f"<{tag}> has an inline handler")
    if ids is not None:
        for name in _REFERENCES:
            faults += [f"{name}={ref!r} points nowhere" for ref in attrs.get(name, "").split() if ref not in ids]
    if tag in LABELLED and attrs.get("type") != "hidden" and not _is_labelled(element, page):
        faults.append(f"no label: <{tag} name={attrs.get('name')!r}>")
    if tag in ("button", "a") and not (element.text.strip() or attrs.get("aria-label")):
        faults.append(f"<{tag} {attrs}> has no name")
    if tag == "form" and element.inside("form"):
        faults.append("a form inside a form")
    if tag == "img" and "alt" not in attrs:
        faults.append("an image without alt")
    if tag == "th" and "scope" not in attrs:
        faults.append(f"<th> without scope: {element.text.strip()!r}")
    if tag == "a" and attrs.get("href", "").startswith(("http:", "https:", "//", "javascript:")):
        faults.append(f"a link that leaves us: {attrs['href']}")
    return faults


def _is_labelled(element: Element, page: Document) -> bool:
    if element.attrs.get("aria-label") or element.attrs.get("aria-labelledby") or element.inside("label"):
        return True
    return any(label.attrs.get("for") == element.attrs.get("id") for label in page.all("label"))
