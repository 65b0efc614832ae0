"""Pools: capacity that is managed as one."""

from django.db import models
from django.urls import reverse

from fabric.core.models import Timestamped, UUIDModel, Versioned
from fabric.inventory.models import Pod


class Pool(UUIDModel, Timestamped, Versioned):
    """A set of agents that run one policy. Agents point here; a pool without agents keeps nothing."""

    name = models.CharField(max_length=100, unique=True)
    pod = models.ForeignKey(Pod, on_delete=models.PROTECT, related_name="pools", null=True, blank=True)
    description = models.TextField(blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("pools:detail", args=[self.pk])
