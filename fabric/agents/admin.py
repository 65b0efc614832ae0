"""Site admin: agents and their credentials, without digests and private keys."""

from django.contrib import admin

from fabric.agents.models import AccessToken, Agent, JoinToken, SigningKey
from fabric.core.admin import ReadOnlyAdmin


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
    """Agents."""

    list_display = ["name", "state", "pool", "host", "desired_generation", "observed_generation", "last_heartbeat_at"]
    list_select_related = ["pool", "host"]
    list_filter = ["state"]
    search_fields = ["name", "hostname", "serial"]


@admin.register(JoinToken)
class JoinTokenAdmin(ReadOnlyAdmin):
    """Join tokens."""

    list_display = ["name", "token_id", "pool", "uses", "max_uses", "expires_at", "revoked_at"]
    list_select_related = ["pool"]
    exclude = ["digest", "pepper_id"]


@admin.register(SigningKey)
class SigningKeyAdmin(ReadOnlyAdmin):
    """Signing keys, public half."""

    list_display = ["kid", "active", "created_at"]
    exclude = ["private_key_encrypted"]


@admin.register(AccessToken)
class AccessTokenAdmin(ReadOnlyAdmin):
    """Access tokens."""

    list_display = ["key_id", "agent", "created_at", "expires_at"]
    list_select_related = ["agent"]
    exclude = ["digest", "pepper_id"]
