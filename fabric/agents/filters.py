"""Filters of the list of agents."""

from fabric.agents.models import Agent, AgentState
from fabric.core.web.filters import ChoiceFilter, FilterSet, ModelChoiceFilter
from fabric.pools.models import Pool


class AgentFilter(FilterSet):
    """Search, trust, pool."""

    search_fields = ("name", "hostname", "serial", "manage_url", "data_url")
    search_hint = "Name, host, serial number, address…"
    state = ChoiceFilter(choices=AgentState.choices, label="Trust", empty_label="any")
    pool = ModelChoiceFilter(queryset=Pool.objects.order_by("name"), empty_label="any")

    class Meta:
        model = Agent
        fields: list[str] = []
