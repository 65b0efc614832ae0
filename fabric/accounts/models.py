"""Users and API tokens."""

from django.contrib.auth.models import AbstractUser
from django.db import models

from fabric.core.actor import Actor, ActorKind, Role
from fabric.core.models import Timestamped, UUIDModel

ROLE_CHOICES = [(role.value, role.value.capitalize()) for role in Role]


class User(UUIDModel, AbstractUser):
    """A person. `role` bounds what they may do; preferences are theirs alone."""

    role = models.CharField(max_length=16, choices=ROLE_CHOICES, default=Role.VIEWER.value)
    time_zone = models.CharField(max_length=64, blank=True)
    theme = models.CharField(
        max_length=16, default="system", choices=[("system", "System"), ("light", "Light"), ("dark", "Dark")]
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=[r.value for r in Role]), name="user_role_known")
        ]

    def __str__(self) -> str:
        return self.username

    def as_actor(self) -> Actor:
        """Return this person as the actor of selectors and services."""
        return Actor(ActorKind.USER, str(self.pk), self.username, Role(self.role))


class ApiToken(UUIDModel, Timestamped):
    """A token for automation: `kvt1_<key_id>.<secret>`. Only an HMAC digest is kept; role and expiry are fixed at
    birth.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    key_id = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64)
    pepper_id = models.CharField(max_length=16)
    role = models.CharField(max_length=16, choices=ROLE_CHOICES)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=[r.value for r in Role]), name="api_token_role_known")
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.key_id})"

    def as_actor(self) -> Actor:
        """Return this token as an actor: its own role, or its owner's where that was lowered since."""
        mine, owners = Role(self.role), Role(self.user.role)
        role = mine if Actor(ActorKind.USER, "", "", owners).may(mine) else owners
        return Actor(ActorKind.TOKEN, str(self.pk), f"{self.user.username} / {self.name}", role)
