"""Forms of pools."""

from typing import Any

from django import forms

from fabric.core.web.forms import VersionedForm
from fabric.inventory.models import Pod


class PoolForm(VersionedForm):
    """Name, pod and purpose of a pool."""

    name = forms.CharField(max_length=100, help_text="Unique, such as `default` or `pod-1-warm`.")
    pod = forms.ModelChoiceField(
        queryset=Pod.objects.select_related("site"),
        required=False,
        empty_label="none",
        help_text="The pod whose agents belong here. Left empty, agents of any pod may.",
    )
    description = forms.CharField(
        required=False, max_length=10_000, widget=forms.Textarea(attrs={"rows": 3}), help_text="What it is for."
    )

    def facts(self) -> dict[str, Any]:
        """Return the cleaned fields by the services' parameter names."""
        data = dict(self.cleaned_data)
        pod = data.pop("pod")
        return {**data, "pod_id": pod.pk if pod else None}
