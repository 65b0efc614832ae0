"""A Chromium in a thread of its own: Playwright's event loop then is nobody else's trouble."""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from tests.e2e.conftest import CHROMIUM_FLAGS
from tests.support.servers import wait_until
from tests.ui.live_server import LiveServer


class Theatre:
    """Owns the thread and the browser in it."""

    def __init__(self, executable: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._playwright: Playwright = self.run(lambda: sync_playwright().start())
        self.browser: Browser = self.run(
            lambda: self._playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        )

    def run(self, work: Callable[[], Any]) -> Any:
        """Call `work` in the browser's thread and wait."""
        return self._thread.submit(work).result(120)

    def close(self) -> None:
        """End browser and thread."""
        self.run(self.browser.close)
        self.run(self._playwright.stop)
        self._thread.shutdown()


@dataclass
class Stage:
    """One page with its server, for one test. `faults` collects console errors, exceptions and CSP violations."""

    theatre: Theatre
    server: LiveServer
    width: int = 1440
    faults: list[str] = field(default_factory=list)

    def open(self, path: str = "/", *, scheme: str = "light") -> Page:
        """Open a page; to be called in the browser's thread."""
        context = self.theatre.browser.new_context(
            viewport={"width": self.width, "height": 900},
            base_url=f"http://127.0.0.1:{self.server.port}",
            color_scheme="dark" if scheme == "dark" else "light",
            timezone_id="UTC",
        )
        page = context.new_page()
        page.on("console", lambda m: self.faults.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.goto(path)
        return page

    def close(self) -> None:
        """Close what was opened."""
        for context in self.theatre.browser.contexts:
            context.close()


def in_browser(test: Callable[..., None]) -> Callable[..., None]:
    """Run the body of a test in the browser's thread."""

    @functools.wraps(test)
    def wrapper(stage: Stage, **fixtures: Any) -> None:
        stage.theatre.run(lambda: test(stage, **fixtures))

    return wrapper


def state_of(page: Page) -> str:
    """Return the state that the page's own badge shows."""
    return str(page.locator(".bar [data-badge]").get_attribute("data-state"))


def frames_of(page: Page, chart: str) -> int:
    """Return how many frames a chart has drawn."""
    return int(page.locator(f"[data-chart={chart}]").get_attribute("data-frames") or 0)


def module(page: Page, path: str, expression: str) -> Any:
    """Return the value of an expression over `m`, a module of ours as the page has it."""
    return page.evaluate(f"async () => {{ const m = await import('/static/js/{path}'); return {expression}; }}")


def seqs_of(page: Page) -> list[int]:
    """Return the numbers of the frames that the page keeps of the overview."""
    return list(module(page, "live/page.js", "m.current.ring('overview').frames.map((f) => f.seq)"))


def until(page: Page, condition: Callable[[], Any], timeout_s: float = 12, message: str = "the condition") -> None:
    """Wait for a condition while the page goes on living."""

    def probe() -> Any:
        page.wait_for_timeout(60)
        return condition()

    wait_until(probe, timeout_s=timeout_s, step_s=0, message=message)


def plotted(page: Page, chart: str) -> list[dict[str, Any]]:
    """Return the traces that Plotly holds of a chart: name, y and how many x."""
    script = (
        "card => card.querySelector('[data-plot]').data.map(t => ({name: t.name, y: [...t.y], group: t.stackgroup}))"
    )
    return list(page.locator(f"[data-chart={chart}]").evaluate(script))
