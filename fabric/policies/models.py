"""Policies, their immutable revisions, and which pool runs which."""

from typing import Any

from django.db import models
from django.urls import reverse

from fabric.core.models import Timestamped, UUIDModel, Versioned
from fabric.pools.models import Pool


class Policy(UUIDModel, Timestamped, Versioned):
    """A named line of revisions."""

    name = models.CharField(max_length=100, unique=True)
    description = models.TextField(blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("policies:detail", args=[self.pk])


class Revision(UUIDModel):
    """One document, never changed after it was written; `digest` is sha256 of its canonical JSON."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="revisions")
    number = models.PositiveIntegerField()
    document: Any = models.JSONField()
    digest = models.CharField(max_length=80)
    note = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=255)

    class Meta:
        ordering = ["policy", "-number"]
        constraints = [models.UniqueConstraint(fields=["policy", "number"], name="revision_number_once")]

    def __str__(self) -> str:
        return f"{self.policy.name} r{self.number}"

    def get_absolute_url(self) -> str:
        return reverse("policies:revision", args=[self.policy_id, self.number])


class PoolPolicy(Timestamped):
    """Which policy a pool runs, and the revision that last went out to it whole."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="pool_policy")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="pool_policies")
    current_revision = models.ForeignKey(Revision, on_delete=models.PROTECT, null=True, blank=True, related_name="+")

    def __str__(self) -> str:
        return f"{self.pool} runs {self.policy}"
