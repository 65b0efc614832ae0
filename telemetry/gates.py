"""Answers the questions that rollouts ask of telemetry: the implementation that `settings.METRIC_SOURCE` names."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from telemetry.kpis import BY_NAME
from telemetry.models import Source
from telemetry.series.query import over_window


class SeriesMetricSource:
    """Reads the series store."""

    def hit_ratio(self, agent_ids: Collection[UUID], start: datetime, end: datetime) -> float | None:
        """Return the prefix hit ratio by blocks of these agents together over [start, end), None without lookups.

        Sums over sums: an agent weighs as much as it was asked. Raises `ValueError` when the window is empty.
        """
        kpi = BY_NAME["prefix_hit_ratio_blocks"]
        sources = Source.objects.filter(agent_id__in=agent_ids)
        return over_window([kpi], sources, start.timestamp(), end.timestamp())[kpi.name]
