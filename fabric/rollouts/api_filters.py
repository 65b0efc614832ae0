"""Filters of the API's lists."""

from django_filters import rest_framework as filters  # type: ignore[import-untyped]

from fabric.rollouts.domain import RolloutState, TargetState


class RolloutFilter(filters.FilterSet):  # type: ignore[misc]
    """Rollouts."""

    pool = filters.UUIDFilter(field_name="pool_id")
    policy = filters.UUIDFilter(field_name="revision__policy_id")
    revision = filters.UUIDFilter(field_name="revision_id")
    state = filters.MultipleChoiceFilter(choices=[(state.value, state.value) for state in RolloutState])
    ordering = filters.OrderingFilter(fields=["created_at", "ended_at"])


class RolloutTargetFilter(filters.FilterSet):  # type: ignore[misc]
    """Targets of one rollout."""

    agent = filters.UUIDFilter(field_name="agent_id")
    state = filters.MultipleChoiceFilter(choices=[(state.value, state.value) for state in TargetState])
    ordering = filters.OrderingFilter(fields=[("agent__name", "agent_name"), ("updated_at", "updated_at")])
