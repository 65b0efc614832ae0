"""Charts as data, and the finder of Plotly's bundle."""

import json

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from telemetry.figures.overview import AGENT, OVERVIEW, specs
from telemetry.figures.plotly_static import PUBLIC_PATH, PlotlyFinder
from telemetry.kpis import BY_NAME


def test_charts_show_known_kpis_with_the_units_of_their_axes() -> None:
    for chart in (*OVERVIEW, *AGENT):
        for trace in chart.traces:
            assert chart.axes[trace.axis]["unit"] == BY_NAME[trace.kpi].unit, (chart.name, trace.kpi)
            assert not trace.per_agent or BY_NAME[trace.kpi].per_agent, (chart.name, trace.kpi)
        assert chart.formulas
        assert chart.basis


def test_overview_shows_what_the_issue_asks_for() -> None:
    shown = {trace.kpi for chart in OVERVIEW for trace in chart.traces}
    wanted = """prefix_hit_ratio_blocks prefix_hit_ratio_tokens lookup_share_dram lookup_share_flash lookup_share_miss
    ttft_p50_s ttft_p95_s ttft_p99_s energy_per_token_j power_w stored_bytes_dram stored_bytes_flash
    evictions_per_s get_bytes_per_s set_bytes_per_s"""
    assert set(wanted.split()) <= shown
    assert len({chart.name for chart in OVERVIEW}) == len(OVERVIEW)


def test_agent_charts_show_only_what_an_agent_reports() -> None:
    assert all(BY_NAME[trace.kpi].per_agent for chart in AGENT for trace in chart.traces)


def test_specs_are_json() -> None:
    text = json.dumps(specs(OVERVIEW))
    assert json.loads(text)["ttft"]["axes"]["y"]["unit"] == "s"


def test_finder_serves_the_bundle_and_nothing_else_of_the_package() -> None:
    finder = PlotlyFinder()
    assert str(finder.find(PUBLIC_PATH)).endswith("plotly.min.js")
    assert finder.find(PUBLIC_PATH, find_all=True) == [finder.find(PUBLIC_PATH)]
    for path in (
        "plotly/widgetbundle.js",
        "plotly.min.js",
        "plotly/../plotly/plotly.min.js",
        "plotly/datasets/iris.csv.gz",
    ):
        assert not finder.find(path), path
    assert [name for name, _ in finder.list([])] == ["plotly.min.js"]
    assert finder.check() == []
    assert str(finders.find(PUBLIC_PATH)).endswith("plotly.min.js")


@pytest.mark.django_db
def test_bundle_is_served_by_the_site() -> None:
    reply = Client().get(f"/static/{PUBLIC_PATH}")
    assert reply.status_code == 200
    assert b"plotly.js v" in b"".join(reply.streaming_content)[:2000]  # type: ignore[attr-defined]
