"""Forms of rollouts."""

from django import forms

from fabric.core.web.forms import Form, ReasonForm


class StartForm(Form):
    """Which revision goes to which pool; posted by the button beside the comparison."""

    pool = forms.UUIDField(widget=forms.HiddenInput)
    revision = forms.UUIDField(widget=forms.HiddenInput)
    reason = forms.CharField(required=False, max_length=2000)


class VerbForm(ReasonForm):
    """One verb on one rollout, and why. No version is asked for: stopping must win over whatever moved meanwhile."""
