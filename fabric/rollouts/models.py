"""Rollouts and their targets: the rows that are the truth of the work."""

from typing import Any

from django.db import models
from django.urls import reverse
from django.utils import timezone

from fabric.agents.models import Agent
from fabric.core.models import Timestamped, UUIDModel, Versioned
from fabric.policies.models import Revision
from fabric.pools.models import Pool
from fabric.rollouts.domain import RolloutState, TargetState


class Rollout(UUIDModel, Timestamped, Versioned):
    """One revision on its way to one pool."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="rollouts")
    revision = models.ForeignKey(Revision, on_delete=models.PROTECT, related_name="rollouts")
    previous_revision = models.ForeignKey(Revision, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    rolls_back = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="rolled_back_by"
    )
    state = models.CharField(
        max_length=16, choices=[(s.value, s.value) for s in RolloutState], default=RolloutState.RUNNING.value
    )
    reason = models.TextField(blank=True)
    started_by = models.CharField(max_length=255)
    last_progress_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    blocked_by: Any = models.JSONField(default=list)

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["state"])]
        constraints = [
            models.UniqueConstraint(
                fields=["pool"], condition=models.Q(state__in=["running", "paused"]), name="rollout_one_open_per_pool"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.revision} → {self.pool}"

    def get_absolute_url(self) -> str:
        return reverse("rollouts:detail", args=[self.pk])


class RolloutTarget(UUIDModel, Timestamped):
    """One agent's part. A worker owns it while its lease runs and its epoch is the row's; everything else is a nudge.

    `generation` and `digest` are what the agent was last given for this rollout, at `released_at`. When the rollout
    is paused or aborted the agent is given `previous_document` back under `restored_generation`, so that no heartbeat
    delivers what was held back; a null `restored_generation` therefore means that the agent should run this rollout's
    revision.
    """

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="targets")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="rollout_targets")
    generation = models.PositiveBigIntegerField()
    digest = models.CharField(max_length=80)
    state = models.CharField(
        max_length=16, choices=[(s.value, s.value) for s in TargetState], default=TargetState.PENDING.value
    )
    lease_until = models.DateTimeField(null=True, blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    epoch = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    reason_code = models.CharField(max_length=64, blank=True)
    reason = models.TextField(blank=True)
    reason_since = models.DateTimeField(null=True, blank=True)
    problems: Any = models.JSONField(default=list)
    previous_document: Any = models.JSONField(default=dict)
    previous_digest = models.CharField(max_length=80, blank=True)
    restored_generation = models.PositiveBigIntegerField(null=True, blank=True)
    released_at = models.DateTimeField(default=timezone.now)
    applied_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["rollout", "agent__name"]
        indexes = [models.Index(fields=["state", "lease_until"])]
        constraints = [
            models.UniqueConstraint(fields=["rollout", "agent"], name="rollout_target_once"),
            models.UniqueConstraint(fields=["agent", "generation"], name="rollout_target_generation_once"),
        ]

    def __str__(self) -> str:
        return f"{self.agent} generation {self.generation}: {self.state}"
