"""What of policies is shown and typed in."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from fabric.core.api.serializers import InputSerializer, TextField
from fabric.policies.models import Policy, PoolPolicy, Revision
from kvcache.policy import MAX_TEXT_BYTES


@extend_schema_field(OpenApiTypes.OBJECT)
class DocumentField(serializers.JSONField):
    """A policy document (see `/api/v1/policies/schema/`)."""


class RevisionSummarySerializer(serializers.ModelSerializer[Revision]):
    """A revision without its document."""

    class Meta:
        model = Revision
        fields = ["id", "number", "digest"]
        read_only_fields = fields


class PoolPolicySerializer(serializers.ModelSerializer[PoolPolicy]):
    """Which policy a pool runs, and the revision that last went out to it whole."""

    pool_name = serializers.CharField(source="pool.name", read_only=True)
    policy_name = serializers.CharField(source="policy.name", read_only=True)
    current_revision = RevisionSummarySerializer(read_only=True, allow_null=True)

    class Meta:
        model = PoolPolicy
        fields = ["pool", "pool_name", "policy", "policy_name", "current_revision", "updated_at"]
        read_only_fields = fields


class PolicySerializer(serializers.ModelSerializer[Policy]):
    """A policy, its newest revision's number (null: none yet), and the pools that run it."""

    latest_number = serializers.IntegerField(read_only=True, allow_null=True)
    pools = PoolPolicySerializer(source="pool_policies", many=True, read_only=True)

    class Meta:
        model = Policy
        fields = ["id", "name", "description", "latest_number", "pools", "version", "created_at", "updated_at"]
        read_only_fields = fields


class PolicyInput(InputSerializer):
    """A policy as it is made or changed."""

    name = TextField(max_length=100)
    description = TextField(max_length=2000, required=False, allow_blank=True)


class RevisionSerializer(serializers.ModelSerializer[Revision]):
    """A revision; it never changes."""

    policy_name = serializers.CharField(source="policy.name", read_only=True)
    document = DocumentField(read_only=True)

    class Meta:
        model = Revision
        fields = [
            "id",
            "policy",
            "policy_name",
            "number",
            "digest",
            "document",
            "note",
            "created_at",
            "created_by",
        ]
        read_only_fields = fields


class DocumentInput(InputSerializer):
    """A document: a JSON object, or a text in YAML or JSON; exactly one of the two."""

    document = DocumentField(required=False)
    text = TextField(required=False, max_length=MAX_TEXT_BYTES, trim_whitespace=False)

    def validate_document(self, value: Any) -> dict[str, Any]:
        """Refuse anything but an object before the policy's own parser names its fields."""
        if not isinstance(value, dict):
            raise serializers.ValidationError("this is not an object of fields")
        return value


class RevisionInput(DocumentInput):
    """A new revision."""

    note = TextField(max_length=2000, required=False, allow_blank=True)


class ValidationInput(DocumentInput):
    """A document to check, against the agents of a pool where one is given."""

    pool = serializers.UUIDField(required=False, allow_null=True)


class AgentProblemSerializer(serializers.Serializer[Any]):
    """One field that one agent cannot enforce."""

    agent_id = serializers.UUIDField()
    agent = serializers.CharField()
    engine = serializers.CharField()
    field = serializers.CharField()
    problem = serializers.CharField()
    remedy = serializers.CharField()


class ValidationSerializer(serializers.Serializer[Any]):
    """A document that can be stored: its digest, its full form with every default, and which agents could not
    enforce it.
    """

    digest = serializers.CharField()
    document = DocumentField()
    problems = AgentProblemSerializer(many=True)


class FieldChangeSerializer(serializers.Serializer[Any]):
    """One field that differs; null where it is not given."""

    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class RevisionDiffSerializer(serializers.Serializer[Any]):
    """What changes from one revision to another."""

    before = serializers.IntegerField(help_text="Number of the older revision.")
    after = serializers.IntegerField(help_text="Number of the newer revision.")
    changes = FieldChangeSerializer(many=True)


class AssignInput(InputSerializer):
    """Which policy a pool is to run."""

    policy = serializers.UUIDField()
    reason = TextField(max_length=2000, required=False, allow_blank=True)
