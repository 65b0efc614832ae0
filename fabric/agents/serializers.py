"""What of agents is shown and typed in. No serializer here knows a digest of a secret."""

from typing import Any

from rest_framework import serializers

from fabric.agents.domain import MAX_JOIN_TOKEN_LIFE, MAX_JOIN_TOKEN_USES, SyncState
from fabric.agents.models import Agent, JoinToken
from fabric.agents.selectors import AgentOverview
from fabric.core.api.serializers import FlagField, IdField, InputSerializer, TextField, WholeNumberField


class AgentTierSerializer(serializers.Serializer[Any]):
    """One tier as last reported."""

    stored_bytes = serializers.IntegerField()
    stored_blocks = serializers.IntegerField()
    capacity_bytes = serializers.IntegerField()
    limit_bytes = serializers.IntegerField()


class AgentSerializer(serializers.ModelSerializer[Any]):
    """An agent, what it should run and what it says it runs."""

    pool_name = serializers.CharField(source="pool.name", default=None, allow_null=True)
    host_name = serializers.CharField(source="host.name", default=None, allow_null=True)
    sync = serializers.ChoiceField(choices=[state.value for state in SyncState])
    heartbeat_age_s = serializers.FloatField(allow_null=True)
    tiers = serializers.DictField(child=AgentTierSerializer())

    class Meta:
        model = Agent
        fields = [
            "id",
            "name",
            "state",
            "sync",
            "pool",
            "pool_name",
            "host",
            "host_name",
            "hostname",
            "serial",
            "agent_version",
            "manage_url",
            "data_url",
            "desired_generation",
            "desired_digest",
            "observed_generation",
            "applied_digest",
            "started_at",
            "last_heartbeat_at",
            "heartbeat_age_s",
            "clock_offset_s",
            "tiers",
            "version",
            "created_at",
            "updated_at",
        ]
        read_only_fields = fields

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Show an `AgentOverview`: the row, and what follows from it now."""
        overview: AgentOverview = instance
        row = overview.agent
        row.sync, row.heartbeat_age_s, row.tiers = overview.sync.value, overview.age_s, overview.tiers  # type: ignore[attr-defined]
        return super().to_representation(row)


class AgentDetailSerializer(AgentSerializer):
    """An agent with its documents: policy, problems, capabilities, last status."""

    desired_document = serializers.DictField()
    apply_problems = serializers.ListField(child=serializers.DictField())
    capabilities = serializers.DictField()
    status = serializers.DictField()

    class Meta(AgentSerializer.Meta):
        fields = [
            *AgentSerializer.Meta.fields,
            "public_key",
            "join_seq",
            "boot_id",
            "desired_document",
            "apply_problems",
            "capabilities",
            "status",
        ]
        read_only_fields = fields


class AgentChange(InputSerializer):
    """What may be changed of an agent."""

    name = TextField(max_length=100, required=False)
    pool = IdField(required=False, allow_null=True, help_text="Null: no pool.")
    reason = TextField(max_length=2000, required=False, allow_blank=True)


class JoinTokenSerializer(serializers.ModelSerializer[JoinToken]):
    """A join token as it is listed: never its secret."""

    pool_name = serializers.CharField(source="pool.name", default=None, allow_null=True)

    class Meta:
        model = JoinToken
        fields = [
            "id",
            "token_id",
            "name",
            "pool",
            "pool_name",
            "expected_serial",
            "allowed_cidr",
            "max_uses",
            "uses",
            "needs_approval",
            "created_by",
            "created_at",
            "expires_at",
            "revoked_at",
        ]
        read_only_fields = fields


class MadeJoinTokenSerializer(JoinTokenSerializer):
    """A join token just made, with its text: the only time that it is shown."""

    token = serializers.CharField(help_text="Hand it to the agent (KVAGENT_JOIN_TOKEN_FILE). It is not kept.")

    class Meta(JoinTokenSerializer.Meta):
        fields = [*JoinTokenSerializer.Meta.fields, "token"]
        read_only_fields = fields


class JoinTokenInput(InputSerializer):
    """A new join token."""

    name = TextField(max_length=100)
    pool = IdField(source="pool_id", required=False, allow_null=True)
    expected_serial = TextField(max_length=255, required=False, allow_blank=True)
    allowed_cidr = TextField(max_length=64, required=False, allow_blank=True)
    max_uses = WholeNumberField(min_value=1, max_value=MAX_JOIN_TOKEN_USES, required=False)
    needs_approval = FlagField(required=False, help_text="Always so where max_uses exceeds 1.")
    life_s = WholeNumberField(
        min_value=60,
        max_value=int(MAX_JOIN_TOKEN_LIFE.total_seconds()),
        required=False,
        help_text="One hour when absent.",
    )
