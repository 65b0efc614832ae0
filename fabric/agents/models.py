"""Agents, how they join, and what they should run against what they do run."""

from typing import Any

from django.db import models
from django.urls import reverse

from fabric.core.models import Timestamped, UUIDModel, Versioned
from fabric.inventory.models import Host
from fabric.pools.models import Pool


class SigningKey(Timestamped):
    """The control plane's Ed25519 key, its private half encrypted at rest. Two may be active while one is rotated."""

    kid = models.CharField(max_length=32, primary_key=True)
    public_key = models.CharField(max_length=64)
    private_key_encrypted = models.TextField()
    active = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.kid


class JoinToken(UUIDModel, Timestamped):
    """Permission to enrol: `kvj1_<token_id>.<secret>`, shown once; kept as an HMAC digest; consumed by one
    conditional update.
    """

    token_id = models.CharField(max_length=8, unique=True)
    digest = models.CharField(max_length=64)
    pepper_id = models.CharField(max_length=16)
    name = models.CharField(max_length=100)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, blank=True, related_name="join_tokens")
    expected_serial = models.CharField(max_length=255, blank=True)
    allowed_cidr = models.CharField(max_length=64, blank=True)
    max_uses = models.PositiveIntegerField(default=1)
    uses = models.PositiveIntegerField(default=0)
    needs_approval = models.BooleanField(default=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=255)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(condition=models.Q(uses__lte=models.F("max_uses")), name="join_token_uses_bounded"),
            models.CheckConstraint(condition=models.Q(max_uses__gte=1), name="join_token_max_uses_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.token_id})"


class Challenge(models.Model):
    """A nonce of an enrolment or rejoin: single use, 60 s."""

    nonce = models.CharField(max_length=64, primary_key=True)
    purpose = models.CharField(max_length=16, choices=[("enroll", "enrol"), ("rejoin", "rejoin")])
    subject = models.CharField(max_length=128)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.purpose} {self.subject}"


class AgentState(models.TextChoices):
    """Trust in an agent. Only `active` agents are pushed to and believed."""

    PENDING = "pending", "Waiting for approval"
    ACTIVE = "active", "Active"
    LOCKED = "locked", "Locked (identity used twice)"
    DENIED = "denied", "Denied (serial known under another key)"
    REVOKED = "revoked", "Revoked"


class Agent(UUIDModel, Timestamped, Versioned):
    """A storage agent. `desired_*` is what it should run, `observed_generation` and `applied_digest` what it says
    it runs.

    `join_seq` is what the next rejoin must present; 0 (after an unlock) takes whatever is presented.
    `previous_boot_id` and `boot_conflicts` tell a copied identity: two processes that report in turn under it.
    """

    name = models.CharField(max_length=100, unique=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, null=True, blank=True, related_name="agents")
    host = models.ForeignKey(Host, on_delete=models.SET_NULL, null=True, blank=True, related_name="agents")
    state = models.CharField(max_length=16, choices=AgentState.choices, default=AgentState.PENDING)
    public_key = models.CharField(max_length=64, db_index=True)
    join_token = models.ForeignKey(JoinToken, on_delete=models.SET_NULL, null=True, blank=True, related_name="agents")
    serial = models.CharField(max_length=255, blank=True)
    hostname = models.CharField(max_length=255)
    agent_version = models.CharField(max_length=64)
    manage_url = models.CharField(max_length=255)
    data_url = models.CharField(max_length=255)
    capabilities: Any = models.JSONField(default=dict)
    join_seq = models.PositiveIntegerField(default=1)
    cred_epoch = models.PositiveIntegerField(default=1)

    desired_generation = models.PositiveBigIntegerField(default=0)
    desired_digest = models.CharField(max_length=80, blank=True)
    desired_document: Any = models.JSONField(default=dict)
    observed_generation = models.PositiveBigIntegerField(default=0)
    applied_digest = models.CharField(max_length=80, blank=True)
    apply_problems: Any = models.JSONField(default=list)

    boot_id = models.CharField(max_length=64, blank=True)
    previous_boot_id = models.CharField(max_length=64, blank=True)
    boot_conflicts = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_seq = models.PositiveBigIntegerField(default=0)
    last_heartbeat_at = models.DateTimeField(null=True, blank=True, db_index=True)
    clock_offset_s = models.FloatField(null=True, blank=True)
    status: Any = models.JSONField(default=dict)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["serial"],
                condition=models.Q(state="active") & ~models.Q(serial=""),
                name="agent_serial_once_active",
            ),
            models.UniqueConstraint(
                fields=["public_key"], condition=~models.Q(state="revoked"), name="agent_key_once_unless_revoked"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("agents:detail", args=[self.pk])


class AccessToken(models.Model):
    """An agent's credential `kva1_<key_id>.<secret>`; the old one lives one interval longer than its successor's
    birth.
    """

    key_id = models.CharField(max_length=16, primary_key=True)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="access_tokens")
    digest = models.CharField(max_length=64)
    pepper_id = models.CharField(max_length=16)
    cred_epoch = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    first_used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key_id
