"""What of telemetry is shown and typed in."""

import math
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from fabric.core.api.serializers import InputSerializer, TextField
from telemetry.domain import MAX_TOKEN_CHARS, MAX_URL_CHARS, Topic, parse_topic
from telemetry.kpis import BY_NAME, Kpi
from telemetry.live.ring import Position
from telemetry.models import ScrapeTarget, TargetKind

MAX_KPIS = 32


class KpiSerializer(serializers.Serializer[Any]):
    """One KPI of the catalogue."""

    name = serializers.CharField()
    title = serializers.CharField()
    unit = serializers.CharField()
    meaning = serializers.CharField()
    basis = serializers.ChoiceField(choices=["measured", "modelled", "declared"])
    formula = serializers.CharField()
    aggregation = serializers.CharField()
    sources = serializers.ListField(child=serializers.CharField(), help_text="Names of the metrics that are read.")
    per_agent = serializers.BooleanField(help_text="Also told of each agent alone.")


class CatalogSerializer(serializers.Serializer[Any]):
    """The whole catalogue."""

    kpis = KpiSerializer(many=True)


class FramesSerializer(serializers.Serializer[Any]):
    """The last frames of a topic, oldest first. `reset`: forget what you have, it is not followed by these."""

    topic = serializers.CharField()
    epoch = serializers.CharField(allow_blank=True)
    seq = serializers.IntegerField()
    reset = serializers.BooleanField()
    frames = serializers.ListField(child=serializers.DictField(), help_text="As docs/contracts.md, section 5.")


class SeriesSerializer(serializers.Serializer[Any]):
    """KPIs over time as columns: `at_s[i]` begins a span of `step_s` seconds, `kpis[name][i]` is its value or null."""

    topic = serializers.CharField()
    start_s = serializers.IntegerField()
    end_s = serializers.IntegerField()
    step_s = serializers.IntegerField()
    level_s = serializers.IntegerField(help_text="Resolution that was read: 1, 10 or 300 s.")
    at_s = serializers.ListField(child=serializers.IntegerField())
    kpis = serializers.DictField(child=serializers.ListField(child=serializers.FloatField(allow_null=True)))


class ScraperStatusSerializer(serializers.Serializer[Any]):
    """Whether the scraper runs, and its own last report: counters of every fault, and each target's last word."""

    running = serializers.BooleanField()
    age_s = serializers.FloatField(allow_null=True)
    report = serializers.DictField(allow_null=True)


class TargetSerializer(serializers.ModelSerializer[ScrapeTarget]):
    """A registered target; of its bearer token only whether there is one."""

    has_token = serializers.SerializerMethodField()

    class Meta:
        model = ScrapeTarget
        fields = (
            "id",
            "name",
            "kind",
            "url",
            "agent",
            "pool",
            "enabled",
            "labels",
            "has_token",
            "created_at",
            "updated_at",
        )
        read_only_fields = fields

    def get_has_token(self, target: ScrapeTarget) -> bool:
        """Tell whether a bearer token is stored."""
        return bool(target.bearer_token_encrypted)


class TargetInput(InputSerializer):
    """A target as it is registered; the same name again brings it to these values."""

    name = TextField(max_length=100)
    kind = serializers.ChoiceField(choices=TargetKind.choices)
    url = TextField(max_length=MAX_URL_CHARS)
    bearer_token = TextField(
        max_length=MAX_TOKEN_CHARS,
        required=False,
        allow_blank=True,
        write_only=True,
        help_text="Left out: the stored one stays. Empty: it is removed.",
    )
    agent = serializers.UUIDField(source="agent_id", required=False, allow_null=True)
    pool = serializers.UUIDField(
        source="pool_id", required=False, allow_null=True, help_text="The pool whose traffic it measures."
    )
    enabled = serializers.BooleanField(required=False)
    labels = serializers.DictField(child=TextField(max_length=255), required=False)


class InstantField(serializers.CharField):
    """A moment: unix seconds, or ISO 8601 with its offset. Out comes unix seconds."""

    def to_internal_value(self, data: Any) -> Any:
        """Parse; infinities and NaN are no moments."""
        try:
            seconds = float(data)
        except (TypeError, ValueError):
            seconds = self._of_iso(str(data))
        if not math.isfinite(seconds) or not 0 <= seconds < 1e11:
            raise serializers.ValidationError("this is no moment: give unix seconds, or 2026-12-01T08:00:00Z")
        return seconds

    @staticmethod
    def _of_iso(text: str) -> float:
        try:
            moment = parse_datetime(text)
        except ValueError:
            moment = None
        return math.nan if moment is None or moment.tzinfo is None else moment.timestamp()


class TopicField(serializers.CharField):
    """A topic of the live streams."""

    def to_internal_value(self, data: Any) -> Any:
        """Parse."""
        try:
            return parse_topic(str(data))
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from None


class KpiListField(serializers.CharField):
    """Names of KPIs, separated by commas."""

    def to_internal_value(self, data: Any) -> Any:
        """Look each up in the catalogue."""
        names = [name.strip() for name in str(data).split(",") if name.strip()]
        if not 1 <= len(names) <= MAX_KPIS:
            raise serializers.ValidationError(f"name 1 to {MAX_KPIS} KPIs, separated by commas")
        unknown = [name[:64] for name in names if name not in BY_NAME]
        if unknown:
            raise serializers.ValidationError(f"no such KPI: {', '.join(unknown)}; see /api/v1/telemetry/kpis/")
        return [BY_NAME[name] for name in dict.fromkeys(names)]


class PositionField(serializers.CharField):
    """`<epoch>:<seq>` of the last frame that the caller has."""

    def to_internal_value(self, data: Any) -> Any:
        """Parse."""
        epoch, colon, seq = str(data).rpartition(":")
        if not colon or not epoch or len(epoch) > 64 or not (seq.isascii() and seq.isdigit()) or len(seq) > 15:
            raise serializers.ValidationError("give <epoch>:<seq> of the last frame you have")
        return Position(epoch, int(seq))


class SeriesQuery(InputSerializer):
    """Parameters of a question to the store."""

    kpi = KpiListField(help_text="Names of KPIs, separated by commas.")
    topic = TopicField(required=False, help_text="overview (default), pool:<uuid> or agent:<uuid>.")
    start = InstantField(required=False, help_text="Unix seconds or ISO 8601; five minutes before the end by default.")
    end = InstantField(required=False, help_text="Now by default.")
    step = serializers.FloatField(
        required=False, min_value=1, max_value=86_400, help_text="Seconds of a point; fitting the range by default."
    )

    @property
    def kpis(self) -> list[Kpi]:
        """The KPIs asked for."""
        found: list[Kpi] = self.validated_data["kpi"]
        return found

    @property
    def asked_topic(self) -> Topic:
        """The topic asked for."""
        found: Topic = self.validated_data.get("topic") or parse_topic("overview")
        return found


class FramesQuery(InputSerializer):
    """Parameters of a poll for frames."""

    after = PositionField(required=False, help_text="<epoch>:<seq> of the last frame that you have.")
