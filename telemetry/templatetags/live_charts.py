"""The live charts of a topic, for the pages of pools and agents: fabric's views know nothing of telemetry."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from django import template
from django.contrib.staticfiles import finders
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from telemetry.figures.overview import AGENT, OVERVIEW, Chart, specs
from telemetry.figures.plotly_static import PUBLIC_PATH

register = template.Library()
_SETS = {"overview": OVERVIEW, "pool": OVERVIEW, "agent": AGENT}
_GLOBAL_STYLE = "plotly.js-style-global"
_MAP_STYLE = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
_UNIT_WORDS = {"ratio": "%"}


@register.inclusion_tag("telemetry/_charts.html")
def live_charts(topic: str) -> dict[str, Any]:
    """Show the charts of `overview`, `pool:<uuid>` or `agent:<uuid>`."""
    charts = _SETS[topic.partition(":")[0]]
    return {"topic": topic, "charts": [(chart, unit_of(chart)) for chart in charts], "specs": specs(charts)}


def unit_of(chart: Chart) -> str:
    """Return the unit (or both) of a chart's axes, as its heading shows it."""
    return ", ".join(_UNIT_WORDS.get(axis["unit"], axis["unit"]) for axis in chart.axes.values())


@register.simple_tag(takes_context=True)
def plotly_styles(context: template.Context) -> SafeString:
    """Return empty style elements with this page's nonce under the ids that Plotly's bundle looks for.

    The bundle fills the first by script, which the CSP allows, and makes neither itself, which it would refuse.
    """
    nonce = str(context["request"].csp_nonce)
    rows = ((style_id, nonce) for style_id in style_ids())
    return format_html_join("\n  ", '<style id="{}" nonce="{}"></style>', rows)


@lru_cache(maxsize=1)
def style_ids() -> tuple[str, ...]:
    """Return the ids of the style elements that the installed bundle would insert; one is a hash of its version."""
    path = finders.find(PUBLIC_PATH)
    text = Path(path).read_text(encoding="utf-8") if isinstance(path, str) else ""
    return (_GLOBAL_STYLE, *dict.fromkeys(_MAP_STYLE.findall(text)))
