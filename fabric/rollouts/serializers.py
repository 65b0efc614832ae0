"""What of rollouts is shown and typed in."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from fabric.core.api.serializers import InputSerializer, ProblemFieldSerializer, TextField
from fabric.rollouts.domain import UNBLOCKS, ReasonCode, Verb
from fabric.rollouts.models import Rollout, RolloutTarget
from fabric.rollouts.selectors import verbs_for_rollout


class ReasonSerializer(serializers.Serializer[Any]):
    """Why something does not move; `target` and `agent` are null where it concerns the whole rollout."""

    target = serializers.UUIDField(allow_null=True)
    agent = serializers.CharField(allow_null=True)
    agent_id = serializers.UUIDField(allow_null=True)
    code = serializers.ChoiceField(choices=[code.value for code in ReasonCode])
    reason = serializers.CharField()
    since = serializers.DateTimeField()
    unblocks = serializers.CharField(help_text="What an operator does about it.")
    problems = ProblemFieldSerializer(many=True)


class RolloutSerializer(serializers.ModelSerializer[Rollout]):
    """A rollout: how far it is, why it does not move, and what may be asked of it now."""

    pool_name = serializers.CharField(source="pool.name", read_only=True)
    revision_name = serializers.CharField(source="revision.__str__", read_only=True)
    digest = serializers.CharField(source="revision.digest", read_only=True)
    targets_total = serializers.IntegerField(read_only=True)
    targets_in_sync = serializers.IntegerField(read_only=True)
    targets_open = serializers.IntegerField(read_only=True)
    targets_stuck = serializers.IntegerField(read_only=True, help_text="Refused or failed.")
    blocked_by = ReasonSerializer(many=True, read_only=True)
    verbs = serializers.SerializerMethodField()

    class Meta:
        model = Rollout
        fields = [
            "id",
            "pool",
            "pool_name",
            "revision",
            "revision_name",
            "digest",
            "previous_revision",
            "rolls_back",
            "state",
            "reason",
            "started_by",
            "targets_total",
            "targets_in_sync",
            "targets_open",
            "targets_stuck",
            "blocked_by",
            "verbs",
            "version",
            "created_at",
            "last_progress_at",
            "ended_at",
        ]
        read_only_fields = fields

    @extend_schema_field(serializers.ListField(child=serializers.ChoiceField(choices=[verb.value for verb in Verb])))
    def get_verbs(self, rollout: Rollout) -> list[str]:
        """Return the verbs that the services would accept from whoever asks."""
        return [verb.value for verb in verbs_for_rollout(self.context["view"].actor, rollout)]


class RolloutTargetSerializer(serializers.ModelSerializer[RolloutTarget]):
    """One agent's part of a rollout."""

    agent_name = serializers.CharField(source="agent.name", read_only=True)
    problems = ProblemFieldSerializer(many=True, read_only=True)
    unblocks = serializers.SerializerMethodField()

    class Meta:
        model = RolloutTarget
        fields = [
            "id",
            "agent",
            "agent_name",
            "generation",
            "digest",
            "restored_generation",
            "state",
            "attempts",
            "next_attempt_at",
            "reason_code",
            "reason",
            "reason_since",
            "problems",
            "unblocks",
            "applied_at",
            "ended_at",
        ]
        read_only_fields = fields

    def get_unblocks(self, target: RolloutTarget) -> str:
        """Return what an operator does about the reason; empty where there is none."""
        return UNBLOCKS[ReasonCode(target.reason_code)] if target.reason_code else ""


class StartInput(InputSerializer):
    """What to send where, and why."""

    pool = serializers.UUIDField(source="pool_id")
    revision = serializers.UUIDField(source="revision_id")
    reason = TextField(max_length=2000, required=False, allow_blank=True)


class VerbInput(InputSerializer):
    """Why a verb is asked for; it stands in the audit log."""

    reason = TextField(max_length=2000, required=False, allow_blank=True)
