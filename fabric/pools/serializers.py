"""What of pools is shown and typed in."""

from typing import Any

from rest_framework import serializers

from fabric.core.api.serializers import IdField, InputSerializer, TextField
from fabric.pools.models import Pool


class PoolSerializer(serializers.ModelSerializer[Pool]):
    """A pool."""

    pod_name = serializers.CharField(source="pod.name", default=None, read_only=True, allow_null=True)
    agent_count = serializers.IntegerField(read_only=True)
    active_agent_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = Pool
        fields = [
            "id",
            "name",
            "pod",
            "pod_name",
            "description",
            "agent_count",
            "active_agent_count",
            "version",
            "created_at",
            "updated_at",
        ]
        read_only_fields = fields


class PoolInput(InputSerializer):
    """A pool as it is made or changed."""

    name = TextField(max_length=100)
    pod = IdField(source="pod_id", required=False, allow_null=True)
    description = TextField(max_length=2000, required=False, allow_blank=True)


class TierSumSerializer(serializers.Serializer[Any]):
    """One tier over the pool's active agents."""

    tier = serializers.CharField()
    agents = serializers.IntegerField(help_text="How many agents reported it.")
    stored_bytes = serializers.IntegerField()
    stored_blocks = serializers.IntegerField()
    capacity_bytes = serializers.IntegerField()
    limit_bytes = serializers.IntegerField()
    fill_ratio = serializers.FloatField(allow_null=True)


class PoolSummarySerializer(serializers.Serializer[Any]):
    """What a pool's active agents last reported, added up."""

    agents = serializers.IntegerField()
    active_agents = serializers.IntegerField()
    reporting_agents = serializers.IntegerField()
    tiers = TierSumSerializer(many=True)
