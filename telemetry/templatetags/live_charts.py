"""The live charts of a topic, for the pages of pools and agents: fabric's views know nothing of telemetry."""

from typing import Any

from django import template

from telemetry.figures.overview import AGENT, OVERVIEW, specs

register = template.Library()
_SETS = {"overview": OVERVIEW, "pool": OVERVIEW, "agent": AGENT}


@register.inclusion_tag("telemetry/_charts.html")
def live_charts(topic: str) -> dict[str, Any]:
    """Show the charts of `overview`, `pool:<uuid>` or `agent:<uuid>`."""
    charts = _SETS[topic.partition(":")[0]]
    return {"topic": topic, "charts": charts, "specs": specs(charts)}
