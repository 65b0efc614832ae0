"""Frames: each topic evaluated and encoded once per tick, numbered `{epoch, seq}`."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import orjson

from telemetry.domain import OVERVIEW, Topic, TopicKind
from telemetry.kpis import KPIS, Kpi, evaluate
from telemetry.series.slices import Slice

SIGNIFICANT_DIGITS = 6
"""More than any chart can show; each digit is sent to every browser."""

_RATES = tuple(kpi for kpi in KPIS if not kpi.is_percentile)
_PERCENTILES = tuple(kpi for kpi in KPIS if kpi.is_percentile)
_PER_AGENT = tuple(kpi for kpi in KPIS if kpi.per_agent)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment worth a line on a chart, and whom it concerns (None: everyone)."""

    at_s: float
    kind: str
    label: str
    url: str
    pool_id: UUID | None = None
    agent_id: UUID | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what a frame carries."""
        return {"at_s": self.at_s, "kind": self.kind, "label": self.label, "url": self.url}


@dataclass(frozen=True, slots=True)
class SourceView:
    """What a tick knows of one source: its short window (rates), its long one (percentiles), and how fresh it is.

    The windows are None while the source does not answer: it takes no part in any KPI then.
    """

    name: str
    agent_id: UUID | None
    pool_id: UUID | None
    is_agent: bool
    state: str
    age_s: float | None
    rates: Slice | None
    percentiles: Slice | None


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A frame as it goes out: JSON bytes, sent unchanged to every viewer."""

    topic: str
    epoch: str
    seq: int
    body: bytes


class FrameBuilder:
    """Numbers and encodes frames. One per scraper process: its epoch is new each time."""

    def __init__(self) -> None:
        self.epoch = uuid4().hex
        self.started_ms = int(time.time() * 1000)
        self._seq: Counter[str] = Counter()

    def build(
        self, at_s: float, views: Sequence[SourceView], pool_ids: Iterable[UUID], marks: Sequence[Mark]
    ) -> list[EncodedFrame]:
        """Return one frame per topic: the overview, each pool, each agent."""
        agents = {view.agent_id: self._agent_part(view) for view in views if view.is_agent}
        frames = [self._frame(OVERVIEW, at_s, views, agents, marks)]
        for pool_id in pool_ids:
            mine = [view for view in views if view.pool_id == pool_id]
            frames.append(self._frame(Topic(TopicKind.POOL, pool_id), at_s, mine, agents, marks))
        for agent_id in agents:
            mine = [view for view in views if view.agent_id == agent_id]
            frames.append(self._frame(Topic(TopicKind.AGENT, agent_id), at_s, mine, agents, marks))
        return frames

    def _frame(
        self,
        topic: Topic,
        at_s: float,
        views: Sequence[SourceView],
        agents: dict[UUID | None, dict[str, Any]],
        marks: Sequence[Mark],
    ) -> EncodedFrame:
        name = str(topic)
        self._seq[name] += 1
        rates = [view.rates for view in views if view.rates is not None]
        percentiles = [view.percentiles for view in views if view.percentiles is not None]
        frame = {  # `live.broadcaster` reads topic, epoch and seq off the front: keep the order
            "type": "frame",
            "topic": name,
            "epoch": self.epoch,
            "seq": self._seq[name],
            "at_s": round(at_s, 3),
            "kpis": _rounded(_RATES, rates) | _rounded(_PERCENTILES, percentiles),
            "agents": [agents[view.agent_id] for view in views if view.is_agent],
            "marks": [mark.as_dict() for mark in marks if _concerns(mark, topic, views)],
        }
        return EncodedFrame(name, self.epoch, self._seq[name], orjson.dumps(frame))

    @staticmethod
    def _agent_part(view: SourceView) -> dict[str, Any]:
        return {
            "id": str(view.agent_id),
            "name": view.name,
            "state": view.state,
            "age_s": None if view.age_s is None else round(view.age_s, 1),
            "kpis": _rounded(_PER_AGENT, [] if view.rates is None else [view.rates]),
        }


def _concerns(mark: Mark, topic: Topic, views: Sequence[SourceView]) -> bool:
    """Tell whether a topic shows a mark: its own, its agents', and for an agent also those of its whole pool."""
    if topic.kind is TopicKind.OVERVIEW or (mark.pool_id is None and mark.agent_id is None):
        return True
    if topic.kind is TopicKind.POOL:
        return mark.pool_id == topic.id
    if mark.agent_id is not None:
        return mark.agent_id == topic.id
    return any(view.is_agent and view.pool_id == mark.pool_id for view in views)


def _rounded(kpis: Sequence[Kpi], slices: Sequence[Slice]) -> dict[str, float | None]:
    values = evaluate(kpis, slices)
    return {n: None if v is None else float(f"{v:.{SIGNIFICANT_DIGITS}g}") for n, v in values.items()}
