"""Forms of agents."""

from datetime import timedelta
from typing import Any

from django import forms

from fabric.agents.domain import MAX_JOIN_TOKEN_USES
from fabric.core.web.forms import Form, VersionedForm
from fabric.pools.models import Pool

_LIVES_MIN = ((15, "15 minutes"), (60, "1 hour"), (480, "8 hours"), (1440, "24 hours"))


class JoinTokenForm(Form):
    """Who may join with a token, into which pool, and for how long. Narrow defaults: one agent, one hour."""

    name = forms.CharField(max_length=100, help_text="What it is for, such as the machine's name.")
    pool = forms.ModelChoiceField(
        queryset=Pool.objects.order_by("name"),
        required=False,
        empty_label="none",
        help_text="The pool that the agent joins.",
    )
    life_min = forms.TypedChoiceField(label="Valid for", choices=_LIVES_MIN, coerce=int, initial=60)
    max_uses = forms.IntegerField(
        label="Agents",
        min_value=1,
        max_value=MAX_JOIN_TOKEN_USES,
        initial=1,
        help_text="How many agents may join with it. One is safest.",
    )
    needs_approval = forms.BooleanField(
        label="Wait for approval",
        required=False,
        help_text="The agent joins, but gets no policy before somebody approves it.",
    )
    allowed_cidr = forms.CharField(
        label="Only from",
        required=False,
        max_length=64,
        help_text="Network that it must come from, such as 10.0.0.0/8.",
    )
    expected_serial = forms.CharField(
        label="Only this machine", required=False, max_length=255, help_text="Serial number that the host must report."
    )
    paths = {"expires_in": "life_min", "life": "life_min", "life_s": "life_min", "expires_at": "life_min"}

    def facts(self) -> dict[str, Any]:
        """Return the cleaned fields by the service's parameter names."""
        data = dict(self.cleaned_data)
        pool = data.pop("pool")
        life = timedelta(minutes=data.pop("life_min"))
        return {**data, "pool_id": pool.pk if pool else None, "life": life}


class AgentForm(VersionedForm):
    """Name and pool of an agent."""

    name = forms.CharField(max_length=100, help_text="Unique. The agent itself keeps the name that it joined with.")
    pool = forms.ModelChoiceField(
        queryset=Pool.objects.order_by("name"),
        required=False,
        empty_label="none",
        help_text="An agent that moves takes the policy of its new pool. Left empty, it keeps what it runs.",
    )
    reason = forms.CharField(required=False, max_length=2000, help_text="Why? Stands in the audit log.")

    def facts(self) -> dict[str, Any]:
        """Return the cleaned fields by the service's parameter names."""
        data = dict(self.cleaned_data)
        pool = data.pop("pool")
        return {**data, "pool_id": pool.pk if pool else None, "leave_pool": pool is None}
