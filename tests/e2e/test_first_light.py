"""A newcomer's first hour in a real browser: sign in, watch, change the policy, kill the agent, see it come back."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import ROOT
from tests.e2e.conftest import Fabric
from tests.support.servers import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(420)]
CHARTS = ["hit_ratio", "lookup_tiers", "ttft"]


@pytest.fixture(scope="module")
def page(browser: Browser, fabric: Fabric) -> Iterator[Page]:
    """A signed-in page whose console errors and CSP violations are collected on `page.faults`."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, base_url=fabric.url)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.faults = faults  # type: ignore[attr-defined]
    page.goto("/")
    expect(page).to_have_url(f"{fabric.url}/login/?next=/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(fabric.password)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{fabric.url}/")
    yield page
    context.close()


def _frames(page: Page, chart: str) -> int:
    return int(page.locator(f"[data-chart={chart}]").get_attribute("data-frames") or "0")


def _kpi(page: Page, name: str) -> float | None:
    """Return the newest value of a KPI as the REST twin of the overview's stream has it."""
    reply = page.request.get("/api/v1/telemetry/topics/overview/frames/")
    assert reply.ok, reply.text()
    frames = reply.json()["frames"]
    return frames[-1]["kpis"].get(name) if frames else None


def test_charts_receive_frames_after_login(page: Page) -> None:
    for chart in CHARTS:
        wait_until(lambda chart=chart: _frames(page, chart) >= 10, timeout_s=60, message=f"10 frames in chart {chart}")
    expect(page.locator("[data-badge]").first).to_have_attribute("data-state", "live", timeout=10_000)


def test_discovered_host_stands_in_inventory_with_source(page: Page) -> None:
    hosts = page.request.get("/api/v1/hosts/").json()["results"]
    assert [host["source"] for host in hosts] == ["discovered"]
    assert hosts[0]["cpu_threads"] > 0
    assert hosts[0]["memory_bytes"] > 1 << 28
    assert hosts[0]["last_seen_at"]


def test_policy_change_rolls_out_and_moves_the_hit_rate(page: Page, fabric: Fabric) -> None:
    wait_until(lambda: (_kpi(page, "lookup_share_dram") or 0) > 0.1, timeout_s=90, message="hits from DRAM")
    before = _kpi(page, "lookup_share_dram")
    page.goto("/policies/")
    page.get_by_role("link", name="default").first.click()
    page.get_by_role("link", name="Edit").first.click()
    page.locator("[name='dram-capacity_percent']").fill("1")
    page.get_by_role("button", name="Save").first.click()
    page.get_by_role("button", name="Start rollout").first.click()
    expect(page.locator("[data-rollout-state]").first).to_have_attribute(
        "data-rollout-state", "succeeded", timeout=45_000
    )
    expect(page.get_by_text("in sync").first).to_be_visible()
    page.goto("/")
    wait_until(
        lambda: (_kpi(page, "lookup_share_dram") or 0) < 0.5 * (before or 0),
        timeout_s=60,
        message=f"the share of DRAM hits falling below half of {before}",
    )
    frames = page.request.get("/api/v1/telemetry/topics/overview/frames/").json()["frames"]
    assert any(mark["kind"].startswith("rollout") for frame in frames for mark in frame["marks"]), (
        "no mark on the chart"
    )


def test_killed_agent_turns_stale_then_recovers_without_reload(page: Page, fabric: Fabric) -> None:
    page.goto("/")
    badge = page.locator("[data-chart=throughput] [data-badge], [data-badge]").first
    expect(badge).to_have_attribute("data-state", "live", timeout=15_000)
    loaded_at = page.evaluate("performance.timeOrigin")
    agent = fabric.child("agent")
    agent.send_signal(signal.SIGSTOP)  # hung, so that the supervisor does not bring it back at once
    try:
        expect(badge).to_have_attribute("data-state", "stale", timeout=15_000)
        wait_until(lambda: _agent_state(page) == "unreachable", timeout_s=25, message="agent shown unreachable")
        rollout = _start_rollout(page)
        wait_until(lambda: _reasons(page, rollout), timeout_s=40, message="the rollout's reason")
        page_2 = page.context.new_page()
        page_2.goto(f"/rollouts/{rollout}/")
        expect(page_2.get_by_text("unreachable").first).to_be_visible(timeout=15_000)
        page_2.close()
    finally:
        agent.kill()  # now the supervisor sees a dead child and starts it again
    expect(badge).to_have_attribute("data-state", "live", timeout=60_000)
    wait_until(lambda: _rollout_state(page, rollout) == "succeeded", timeout_s=90, message="the rollout ending")
    assert page.evaluate("performance.timeOrigin") == loaded_at, "the page was reloaded"


def test_no_console_error_and_no_csp_violation_on_any_page(page: Page, fabric: Fabric) -> None:
    noise = ("WebSocket connection", "net::ERR_", "Failed to load resource")
    for path in ("/", "/agents/", "/pools/", "/policies/", "/rollouts/", "/inventory/hosts/", "/audit/"):
        page.goto(path)
        page.wait_for_timeout(700)
    faults = [fault for fault in page.faults if not any(part in fault for part in noise)]  # type: ignore[attr-defined]
    assert not faults, faults


def test_screenshot_of_the_overview_for_the_readme(page: Page, tmp_path: Path) -> None:
    page.goto("/")
    wait_until(lambda: _frames(page, "hit_ratio") >= 5, timeout_s=30, message="charts drawn")
    target = ROOT / "test-results" / "overview.png"
    target.parent.mkdir(exist_ok=True)
    page.screenshot(path=target)
    assert target.stat().st_size > 20_000


def test_nothing_answers_without_credentials(fabric: Fabric) -> None:
    with httpx.Client(base_url=fabric.url) as client:
        for path in ("/", "/agents/", "/inventory/hosts/", "/policies/", "/rollouts/", "/audit/"):
            assert client.get(path).headers["location"].startswith("/login/"), path
        for path in ("/api/v1/agents/", "/api/v1/telemetry/kpis/", "/api/schema/", "/api/v1/rollouts/"):
            assert client.get(path).status_code in (401, 403), path
        assert client.get("/livez").status_code == 200


def _agent_state(page: Page) -> str:
    frames = page.request.get("/api/v1/telemetry/topics/overview/frames/").json()["frames"]
    return str(frames[-1]["agents"][0]["state"]) if frames and frames[-1]["agents"] else ""


def _csrf(page: Page) -> str:
    return str(page.locator("meta[name=csrf-token]").get_attribute("content"))


def _start_rollout(page: Page) -> str:
    pool = page.request.get("/api/v1/pools/").json()["results"][0]
    policy = page.request.get("/api/v1/policies/").json()["results"][0]
    revisions = page.request.get(f"/api/v1/policies/{policy['id']}/revisions/").json()["results"]
    first = min(revisions, key=lambda revision: revision["number"])
    reply = page.request.post(
        "/api/v1/rollouts/",
        data=json.dumps({"pool": pool["id"], "revision": first["id"], "reason": "back to the first revision"}),
        headers={"Content-Type": "application/json", "X-CSRFToken": _csrf(page), "Referer": page.url},
    )
    assert reply.status == 201, reply.text()
    return str(reply.json()["id"])


def _rollout(page: Page, rollout: str) -> dict[str, object]:
    reply = page.request.get(f"/api/v1/rollouts/{rollout}/")
    return dict(reply.json()) if reply.ok else {}


def _reasons(page: Page, rollout: str) -> object:
    return _rollout(page, rollout).get("blocked_by")


def _rollout_state(page: Page, rollout: str) -> object:
    return _rollout(page, rollout).get("state")
