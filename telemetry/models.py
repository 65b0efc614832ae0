"""Scrape targets beside the agents, and the SQL series store: sources, layouts, the tick log and its roll-ups."""

from typing import Any

from django.db import models

from fabric.agents.models import Agent
from fabric.core.models import Timestamped, UUIDModel
from fabric.pools.models import Pool


class TargetKind(models.TextChoices):
    """What a target is; agents enrol and need no row, a row of that kind reads one that did not."""

    AGENT = "agent", "Storage agent"
    VLLM = "vllm", "vLLM engine"
    REPLAY = "replay", "Replay client"


class ScrapeTarget(UUIDModel, Timestamped):
    """An exposition endpoint that is not an enrolled agent's. The bearer token is encrypted at rest and never shown."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16, choices=TargetKind.choices)
    url = models.CharField(max_length=500)
    agent = models.ForeignKey(Agent, on_delete=models.SET_NULL, null=True, blank=True, related_name="scrape_targets")
    pool = models.ForeignKey(Pool, on_delete=models.SET_NULL, null=True, blank=True, related_name="scrape_targets")
    bearer_token_encrypted = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    labels: Any = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=models.Q(kind__in=TargetKind.values), name="scrape_target_kind_known"),
        ]

    def __str__(self) -> str:
        return self.name


class Source(models.Model):
    """Whose samples they are: an agent or a target, by key. No foreign keys, so that history outlives what made it."""

    key = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=16)
    agent_id = models.UUIDField(null=True, blank=True, db_index=True)
    pool_id = models.UUIDField(null=True, blank=True, db_index=True)
    host_id = models.UUIDField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Layout(models.Model):
    """An ordered list of series, one canonical text a line: what the numbers of a blob belong to. Never changed."""

    digest = models.CharField(max_length=64, unique=True)
    series = models.TextField()

    def __str__(self) -> str:
        return self.digest[:12]


class Tick(models.Model):
    """One answer of one source: raw values as received (see `series.codec`). `complete`: none was lost on the way."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+", db_index=False)
    at_ms = models.BigIntegerField()
    layout = models.ForeignKey(Layout, on_delete=models.PROTECT, related_name="+", db_index=False)
    complete = models.BooleanField(default=True)
    values = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "at_ms"], name="tick_once")]

    def __str__(self) -> str:
        return f"{self.source_id} @ {self.at_ms}"


class Rollup(models.Model):
    """All series of one source over `level_s` seconds from `at_s` on: sum, count, min, max (see `series.codec`)."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+", db_index=False)
    level_s = models.PositiveSmallIntegerField()
    at_s = models.BigIntegerField()
    layout = models.ForeignKey(Layout, on_delete=models.PROTECT, related_name="+", db_index=False)
    ticks = models.PositiveIntegerField()
    covered_s = models.FloatField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "level_s", "at_s"], name="rollup_once")]

    def __str__(self) -> str:
        return f"{self.source_id} {self.level_s} s @ {self.at_s}"
