"""REST edge of telemetry: KPI catalogue, history, the live streams' twin for polling, targets, the scraper's state."""

import csv
import io
import time
from typing import Any
from uuid import UUID

import orjson
from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from redis.exceptions import RedisError
from rest_framework import status
from rest_framework.mixins import ListModelMixin
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fabric.core.actor import Actor, Role
from fabric.core.api.principals import actor_of
from fabric.core.api.schema import FabricAutoSchema
from fabric.core.api.serializers import parsed
from fabric.core.api.views import FabricViewSet
from fabric.core.errors import FabricError, Invalid, Problem
from telemetry import selectors, services
from telemetry.domain import parse_topic
from telemetry.kpis import KPIS
from telemetry.live.redis import STATUS_KEY, RedisAddress
from telemetry.live.ring import Position, read_missed
from telemetry.models import ScrapeTarget
from telemetry.serializers import (
    CatalogSerializer,
    FramesQuery,
    FramesSerializer,
    KpiSerializer,
    ScraperStatusSerializer,
    SeriesQuery,
    SeriesSerializer,
    TargetInput,
    TargetSerializer,
)
from telemetry.series.levels import suggest_step
from telemetry.series.query import Answer, query

DEFAULT_SPAN_S = 300.0


class LiveUnavailable(FabricError):
    """Redis is away: live frames wait, history answers."""

    status = 503
    kind = "live-unavailable"


class TelemetryView(APIView):
    """Base: anyone signed in may read."""

    schema = FabricAutoSchema()
    read_role = Role.VIEWER

    @property
    def actor(self) -> Actor:
        """Who asks."""
        return actor_of(self.request)


class CsvRenderer(BaseRenderer):
    """Columns of numbers as CSV. Errors stay problem bodies."""

    media_type = "text/csv"
    format = "csv"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        """Write `at_s`, `time` (ISO 8601, UTC) and one column per KPI; a gap is an empty cell."""
        if "at_s" not in (data or {}):
            return orjson.dumps(data)
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        writer.writerow(["at_s", "time", *data["kpis"]])
        for index, at_s in enumerate(data["at_s"]):
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
            values = [column[index] for column in data["kpis"].values()]
            writer.writerow([at_s, moment, *("" if value is None else value for value in values)])
        return out.getvalue().encode()


class KpisView(TelemetryView):
    """The KPI catalogue."""

    @extend_schema(summary="KPI catalogue", responses=CatalogSerializer)
    def get(self, request: Request) -> Response:
        """Return every KPI with its formula, unit, basis and sources."""
        return Response({"kpis": KpiSerializer(KPIS, many=True).data})


class SeriesView(TelemetryView):
    """KPIs over time."""

    renderer_classes = [JSONRenderer, CsvRenderer]

    @extend_schema(summary="KPIs over time", parameters=[SeriesQuery], responses=SeriesSerializer)
    def get(self, request: Request) -> Response:
        """Return columns; as CSV with `Accept: text/csv` or `format=csv`. A gap is null, never zero."""
        asked = SeriesQuery(data={k: v for k, v in request.query_params.items() if k != "format"})
        asked.is_valid(raise_exception=True)
        end_s = asked.validated_data.get("end", time.time())
        start_s = asked.validated_data.get("start", end_s - DEFAULT_SPAN_S)
        step_s = asked.validated_data.get("step", suggest_step(end_s - start_s))
        sources = selectors.sources_for_topic(self.actor, asked.asked_topic)
        try:
            answer = query(asked.kpis, sources, start_s, end_s, step_s)
        except ValueError as error:
            raise Invalid("The range cannot be answered.", [Problem("start", str(error), "change the range")]) from None
        response = Response(_columns(str(asked.asked_topic), answer))
        if request.accepted_renderer.format == "csv":
            response["Content-Disposition"] = 'attachment; filename="series.csv"'
        return response


class FramesView(TelemetryView):
    """The live streams for those whom websockets do not reach."""

    @extend_schema(
        summary="Last frames of a topic",
        parameters=[OpenApiParameter("topic", OpenApiTypes.STR, OpenApiParameter.PATH), FramesQuery],
        responses=FramesSerializer,
    )
    def get(self, request: Request, topic: str) -> HttpResponse:
        """Return the frames after `after`, or all that are kept (up to 300)."""
        asked = FramesQuery(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        try:
            found = selectors.check_topic(self.actor, parse_topic(topic))
        except ValueError as error:
            raise Invalid("There is no such topic.", [Problem("topic", str(error))]) from None
        position = asked.validated_data.get("after", Position())
        try:
            with RedisAddress.from_settings().connect_blocking() as client:
                missed = read_missed(client, str(found), position)
        except (RedisError, OSError) as error:
            raise LiveUnavailable("Live frames are not available now; history is: ask /series/.") from error
        last = missed.frames[-1] if missed.frames else None
        head = {
            "topic": str(found),
            "epoch": last.epoch if last else position.epoch,
            "seq": last.seq if last else position.seq,
            "reset": missed.reset,
        }
        body = f'{orjson.dumps(head).decode()[:-1]},"frames":[{",".join(frame.text for frame in missed.frames)}]}}'
        return HttpResponse(body, content_type="application/json", headers={"Cache-Control": "no-store"})


class StatusView(TelemetryView):
    """The scraper's own state."""

    @extend_schema(summary="State of the scraper", responses=ScraperStatusSerializer)
    def get(self, request: Request) -> Response:
        """Return its last report: faults by name, targets with state and reason. Not running when it is silent."""
        try:
            with RedisAddress.from_settings().connect_blocking() as client:
                stored: Any = client.get(STATUS_KEY)
        except (RedisError, OSError) as error:
            raise LiveUnavailable("The scraper's report cannot be read: Redis does not answer.") from error
        answer: dict[str, Any] = {"running": False, "age_s": None, "report": None}
        if stored:
            report = orjson.loads(stored)
            age_s = max(0.0, time.time() - report["at_s"])
            answer = {"running": age_s < 5 * max(1.0, report["interval_s"]), "age_s": age_s, "report": report}
        return Response(answer, headers={"Cache-Control": "no-store"})


class TargetViewSet(ListModelMixin, FabricViewSet):
    """Scrape targets beside the agents, which need no registration."""

    serializer_class = TargetSerializer
    read_role = Role.OPERATOR

    def rows(self) -> QuerySet[ScrapeTarget]:
        """Return the registered targets."""
        return selectors.scrape_targets_for_list(self.actor)

    @extend_schema(summary="List scrape targets")
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the registered targets in pages."""
        return super().list(request, *args, **kwargs)

    @extend_schema(summary="Register a scrape target", request=TargetInput, responses={201: TargetSerializer})
    def create(self, request: Request) -> Response:
        """Register a target, or bring the one of that name to these values."""
        target = services.register_target(actor=self.actor, **parsed(TargetInput, request))
        return self.rendered(target, status.HTTP_201_CREATED)

    @extend_schema(summary="Remove a scrape target", responses={204: OpenApiResponse(description="Removed.")})
    def destroy(self, request: Request, pk: UUID) -> Response:
        """Stop scraping it; what was stored stays."""
        services.remove_target(actor=self.actor, target_id=pk)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _columns(topic: str, answer: Answer) -> dict[str, Any]:
    plan = answer.plan
    return {
        "topic": topic,
        "start_s": plan.start_s,
        "end_s": plan.end_s,
        "step_s": plan.step_s,
        "level_s": plan.level_s,
        "at_s": answer.at_s,
        "kpis": answer.values,
    }
