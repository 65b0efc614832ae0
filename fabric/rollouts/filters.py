"""Filters of the list of rollouts."""

from fabric.core.web.filters import ChoiceFilter, FilterSet, ModelChoiceFilter
from fabric.pools.models import Pool
from fabric.rollouts.domain import RolloutState
from fabric.rollouts.models import Rollout


class RolloutFilter(FilterSet):
    """Search, state, pool."""

    search_fields = ("revision__policy__name", "pool__name", "started_by", "reason")
    search_hint = "Policy, pool, person, reason…"
    state = ChoiceFilter(choices=[(s.value, s.value) for s in RolloutState], empty_label="any")
    pool = ModelChoiceFilter(queryset=Pool.objects.order_by("name"), empty_label="any")

    class Meta:
        model = Rollout
        fields: list[str] = []
