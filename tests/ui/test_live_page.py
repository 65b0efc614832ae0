"""The live page in a real browser, against a server that speaks the protocol: draws, gaps, marks, faults, recovery."""

import csv
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from fabric.core.web.text import bytes_text
from tests.ui.stage import Stage, frames_of, in_browser, module, plotted, seqs_of, state_of, until

# The mark has the database made; the pages were rendered before the browser starts.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db]
CHARTS = ("hit_ratio", "lookup_tiers", "ttft", "energy", "throughput", "stored", "evictions")
REAL = {
    "prefix_hit_ratio_blocks": 0.75,
    "prefix_hit_ratio_tokens": 0.7,
    "lookup_share_dram": 0.5,
    "lookup_share_flash": 0.25,
    "lookup_share_miss": 0.25,
    "ttft_p50_s": 0.123,
    "ttft_p95_s": 1.5,
    "ttft_p99_s": 2.5,
    "energy_per_token_j": 0.05,
    "power_w": 700.0,
    "stored_bytes_dram": 3 << 30,
    "stored_bytes_flash": 0.0,
    "get_bytes_per_s": 5 << 20,
    "set_bytes_per_s": 1 << 20,
    "evictions_per_s": 12.0,
    "requests_per_s": 4.0,
}


def _whole(seqs: list[int]) -> bool:
    return bool(seqs) and seqs == list(range(seqs[0], seqs[0] + len(seqs)))


@in_browser
def test_every_chart_draws_each_second_without_any_complaint(stage: Stage) -> None:
    stage.server.kpis = lambda seq: dict(REAL)
    page = stage.open()
    for chart in CHARTS:
        until(page, lambda chart=chart: frames_of(page, chart) >= 3, 20, f"3 frames in {chart}")
    assert state_of(page) == "live"
    for chart in CHARTS:
        badge = page.locator(f"[data-chart={chart}] [data-badge]")
        expect(badge).to_have_attribute("data-state", "live")
        expect(badge).to_have_text("live")
    legend = page.locator("[data-chart=ttft] [data-legend]").inner_text()
    assert "123 ms" in legend
    assert "2.50 s" in legend
    assert "3.00 GiB" in page.locator("[data-chart=stored] [data-legend]").inner_text()
    assert page.locator("[data-kpi='stored_bytes_dram+stored_bytes_flash']").inner_text() == "3.00 GiB"
    assert page.locator(".modebar-btn[data-title*='cloud' i], .modebar-btn[data-title*='Chart Studio' i]").count() == 0
    assert not stage.faults


@in_browser
def test_null_is_a_gap_and_the_legend_says_unknown(stage: Stage) -> None:
    stage.server.kpis = lambda seq: {
        **REAL,
        **({"lookup_share_dram": None, "prefix_hit_ratio_blocks": None} if seq % 8 >= 4 else {}),
    }
    stage.server.burst(24)
    page = stage.open()
    until(page, lambda: frames_of(page, "lookup_tiers") >= 1)
    blocks = plotted(page, "hit_ratio")[0]
    assert None in blocks["y"]
    assert 0 not in blocks["y"], "an unknown value is never drawn as zero"
    stage.server.frozen = True
    stage.server.kpis = lambda seq: {**REAL, "prefix_hit_ratio_blocks": None}
    stage.server.burst(1)
    output = page.locator("[data-chart=hit_ratio] output").first
    until(page, lambda: output.inner_text() == "–", message="a dash for the unknown value")


@in_browser
def test_stacked_shares_are_not_drawn_across_a_gap(stage: Stage) -> None:
    shares = ("lookup_share_dram", "lookup_share_flash", "lookup_share_miss")
    stage.server.kpis = lambda seq: REAL if seq not in (10, 11, 12) else {**REAL, **dict.fromkeys(shares)}
    stage.server.burst(20)
    page = stage.open()
    until(page, lambda: frames_of(page, "lookup_tiers") >= 1)
    assert {trace["group"] for trace in plotted(page, "lookup_tiers")} >= {"part0", "part1"}


@in_browser
def test_no_frame_for_three_seconds_is_stale_and_the_next_one_live(stage: Stage) -> None:
    page = stage.open()
    until(page, lambda: state_of(page) == "live")
    stage.server.frozen = True
    since = time.monotonic()
    until(page, lambda: state_of(page) == "stale")
    assert 2.0 < time.monotonic() - since < 6.0
    assert "s old" in str(page.locator(".bar [data-badge]").get_attribute("title"))
    stage.server.frozen = False
    until(page, lambda: state_of(page) == "live")


@in_browser
def test_old_frames_of_a_snapshot_are_stale_at_once(stage: Stage) -> None:
    stage.server.frozen = True
    stage.server.burst(5)
    for frame in stage.server.frames:
        frame["at_s"] -= 120
    page = stage.open()
    until(page, lambda: frames_of(page, "hit_ratio") >= 1)
    page.wait_for_timeout(700)
    assert state_of(page) == "stale"


@in_browser
def test_silent_agent_turns_every_badge_stale_and_back_without_reload(stage: Stage) -> None:
    page = stage.open()
    until(page, lambda: state_of(page) == "live")
    loaded_at = page.evaluate("performance.timeOrigin")
    stage.server.agent_state = "unreachable"
    until(page, lambda: state_of(page) == "stale")
    expect(page.locator(".bar [data-badge]")).to_have_text("stale: agent unreachable")
    assert "kv-01: unreachable" in str(page.locator(".bar [data-badge]").get_attribute("title"))
    assert page.locator("[data-count-state=unreachable]").inner_text() == "1"
    for chart in CHARTS:
        expect(page.locator(f"[data-chart={chart}] [data-badge]")).to_have_attribute("data-state", "stale")
    stage.server.agent_state = "live"
    until(page, lambda: state_of(page) == "live")
    assert page.evaluate("performance.timeOrigin") == loaded_at


@in_browser
def test_lost_connection_is_shown_and_resumed_where_it_was(stage: Stage) -> None:
    page = stage.open()
    until(page, lambda: frames_of(page, "hit_ratio") >= 2)
    assert stage.server.heard[1] == {"op": "subscribe", "topic": "overview", "resume": None}
    stage.server.refuse_sockets = stage.server.refuse_polls = stage.server.frozen = True
    last = stage.server.seq
    stage.server.drop()
    until(page, lambda: state_of(page) == "reconnecting", 5)
    stage.server.refuse_sockets = stage.server.refuse_polls = stage.server.frozen = False
    stage.server.skip(3)
    until(page, lambda: page.locator(".bar [data-badge]").inner_text() == "live", 25, "the websocket again")
    resumed = [message["resume"] for message in stage.server.heard if message.get("resume")]
    assert resumed[-1]["epoch"] == "e1"
    assert resumed[-1]["seq"] >= last
    until(page, lambda: len(plotted(page, "hit_ratio")[0]["y"]) > last + 3, message="the missed frames too")
    assert _whole(seqs_of(page)), "each frame once, in order, none left out"


@in_browser
def test_restarted_scraper_begins_the_charts_anew(stage: Stage) -> None:
    stage.server.burst(50)
    page = stage.open()
    until(page, lambda: len(plotted(page, "hit_ratio")) and len(plotted(page, "hit_ratio")[0]["y"]) >= 50)
    stage.server.begin_epoch("e2")
    until(page, lambda: 0 < len(plotted(page, "hit_ratio")[0]["y"]) < 20)
    until(page, lambda: state_of(page) == "live")


@in_browser
def test_frames_left_out_for_a_slow_reader_are_fetched(stage: Stage) -> None:
    page = stage.open()
    until(page, lambda: frames_of(page, "hit_ratio") >= 1)
    stage.server.skip(6)
    until(page, lambda: stage.server.polls, message="a request for what was left out")
    until(page, lambda: _whole(seqs_of(page)), message="a ring without holes")


@in_browser
def test_blocked_websockets_are_replaced_by_polling_until_they_get_through(stage: Stage) -> None:
    stage.server.refuse_sockets = True
    page = stage.open()
    until(page, lambda: frames_of(page, "hit_ratio") >= 2, 25, "charts drawn from polled frames")
    expect(page.locator(".bar [data-badge]")).to_have_text("live (polling)")
    assert stage.server.polls[0] == ""
    until(
        page, lambda: any(poll.startswith("e1:") for poll in stage.server.polls), message="asking only for newer frames"
    )
    stage.server.refuse_sockets = False
    until(page, lambda: page.locator(".bar [data-badge]").inner_text() == "live", 25, "the websocket taking over")
    polls = len(stage.server.polls)
    page.wait_for_timeout(2600)
    assert len(stage.server.polls) <= polls + 1


@in_browser
def test_ended_session_is_said(stage: Stage) -> None:
    page = stage.open()
    until(page, lambda: state_of(page) == "live")
    stage.server.refuse_sockets = stage.server.refuse_polls = True
    stage.server.drop(4401)
    until(page, lambda: page.locator(".bar [data-badge]").inner_text() == "signed out", 5)


@in_browser
def test_flood_is_drawn_at_most_once_a_second(stage: Stage) -> None:
    stage.server.interval_s = 0.02
    page = stage.open()
    until(page, lambda: frames_of(page, "hit_ratio") >= 1)
    before, since = frames_of(page, "hit_ratio"), time.monotonic()
    page.wait_for_timeout(4000)
    assert frames_of(page, "hit_ratio") - before <= (time.monotonic() - since) / 0.9 + 1
    assert len(seqs_of(page)) <= 300


@in_browser
def test_marks_stand_on_the_charts_and_in_a_list_with_links(stage: Stage) -> None:
    page = stage.open()
    until(page, lambda: frames_of(page, "hit_ratio") >= 2)
    mark = {"at_s": time.time(), "kind": "rollout_started", "label": "default r2 started to warm", "url": "/pools/"}
    stage.server.marks = [mark, {**mark, "label": "<b>x</b>", "url": "javascript:alert(1)"}]
    link = page.locator("[data-marks] a")
    expect(link).to_have_text("default r2 started to warm", timeout=8000)
    assert link.count() == 1, "only our own pages are linked"
    assert "<b>x</b>" in page.locator("[data-marks]").inner_text()
    shapes = "card => card.querySelector('[data-plot]').layout.shapes.length"
    until(page, lambda: page.locator("[data-chart=ttft]").evaluate(shapes) == 2, message="two lines on a chart")


@in_browser
def test_table_and_csv_hold_what_the_chart_shows(stage: Stage) -> None:
    stage.server.kpis = lambda seq: {**REAL, "stored_bytes_dram": seq * 1024.0, "stored_bytes_flash": None}
    stage.server.burst(80)
    page = stage.open()
    until(page, lambda: frames_of(page, "stored") >= 1)
    card = page.locator("[data-chart=stored]")
    card.locator("[data-table] summary").click()
    rows = card.locator("[data-table] tbody tr")
    expect(rows).to_have_count(60)
    assert card.locator("[data-table] thead").inner_text().split("\n")[0].split("\t") == [
        "Time",
        "kv-01 DRAM",
        "kv-01 flash",
    ]
    assert rows.first.inner_text().endswith("–"), "unknown is a dash"
    with page.expect_download() as download:
        card.locator("[data-csv]").click()
    assert download.value.suggested_filename.startswith("stored-")
    lines = list(csv.reader(Path(download.value.path()).read_text().splitlines()))
    assert lines[0] == ["time_utc", "unix_s", "epoch", "seq", "kv-01 DRAM", "kv-01 flash"]
    assert [float(line[4]) for line in lines[1:]] == [int(line[3]) * 1024.0 for line in lines[1:]]
    assert {line[5] for line in lines[1:]} == {""}
    assert len(lines) > 80


@in_browser
def test_many_agents_are_drawn_as_the_highest_few_and_the_rest_is_named(stage: Stage) -> None:
    stage.server.agents = 40
    stage.server.kpis = lambda seq: {"evictions_per_s": 1.0}
    page = stage.open()
    until(page, lambda: frames_of(page, "evictions") >= 2)
    assert [trace["name"] for trace in plotted(page, "evictions")] == [f"kv-{n}" for n in range(33, 41)]
    legend = page.locator("[data-chart=evictions] [data-legend]").inner_text()
    assert "highest 8 agents; 32 more in table and CSV" in legend
    page.locator("[data-chart=evictions] [data-table] summary").click()
    expect(page.locator("[data-chart=evictions] thead th")).to_have_count(41)


@in_browser
def test_polled_part_never_swallows_the_login_page(stage: Stage) -> None:
    page = stage.open()
    until(page, lambda: state_of(page) == "live")
    login = "<html><body><h1>Sign in</h1></body></html>"
    page.route("**/status/**", lambda route: route.fulfill(status=302, headers={"Location": "/login/"}))
    page.route("**/login/", lambda route: route.fulfill(body=login, content_type="text/html"))
    with page.expect_event("load"):  # the reload; asking the page meanwhile would meet a context that is going away
        stage.server.agent_state = "stale"  # a change that has the part fetched at once
    assert page.get_by_role("heading", name="Sign in").count() == 0


@in_browser
def test_charts_follow_the_theme(stage: Stage) -> None:
    page = stage.open(scheme="dark")
    until(page, lambda: frames_of(page, "hit_ratio") >= 1)
    colour = "card => card.querySelector('[data-plot]').layout.font.color"
    dark = page.locator("[data-chart=hit_ratio]").evaluate(colour)
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    until(page, lambda: page.locator("[data-chart=hit_ratio]").evaluate(colour) != dark)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(244, 246, 248)"


@in_browser
def test_sizes_are_written_alike_by_server_and_script(stage: Stage) -> None:
    page = stage.open()
    for size in (0, 1, 1023, 1024, 1536, 10 * 1024, 123456789, 1 << 40, 5 << 50):
        written, ours = module(page, "lib/format.js", f"m.bytes({size})"), bytes_text(size)
        number, unit = written.split()
        assert unit == ours.split()[1], size
        assert float(number) == pytest.approx(float(ours.split()[0]), rel=0.006), size


@in_browser
def test_pause_before_the_next_try_grows_and_is_jittered(stage: Stage) -> None:
    page = stage.open()
    waits = module(page, "live/socket.js", "[1, 2, 3, 9].map((n) => [m.backoffMs(n, 0), m.backoffMs(n, 1)])")
    assert waits == [[250, 500], [500, 1000], [1000, 2000], [7500, 15000]]
