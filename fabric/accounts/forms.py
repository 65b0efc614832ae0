"""Forms of the account page."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.utils import timezone

from fabric.accounts.models import ROLE_CHOICES
from fabric.core.actor import Actor, Role
from fabric.core.web.forms import Form

_LIVES_DAYS = ((7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "1 year"), (0, "never"))


class PreferencesForm(Form):
    """Theme and time zone: each person's own."""

    theme = forms.ChoiceField(
        choices=[("system", "As the system"), ("light", "Light"), ("dark", "Dark")], widget=forms.RadioSelect
    )
    time_zone = forms.ChoiceField(required=False, help_text="Times on every page and chart are shown in this zone.")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        zones = [(name, name.replace("_", " ")) for name in sorted(available_timezones())]
        self.fields["time_zone"].choices = [("", "The site's own"), *zones]  # type: ignore[attr-defined]


class PasswordForm(Form):
    """A new password, typed twice."""

    old_password = forms.CharField(
        label="Current password",
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    new_password = forms.CharField(
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 12 characters, and none of the common ones.",
    )
    repeated = forms.CharField(
        label="New password again",
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        """Both must be the same."""
        data = super().clean() or {}
        if "new_password" in data and data["new_password"] != data.get("repeated"):
            self.add_error("repeated", "The two are different.")
        return data


class ApiTokenForm(Form):
    """What a new API token may do, and for how long."""

    name = forms.CharField(max_length=100, help_text="What will use it, such as `ci` or `grafana`.")
    role = forms.ChoiceField(help_text="A token may do less than you, never more. It cannot be changed later.")
    days = forms.TypedChoiceField(
        label="Expires after", choices=_LIVES_DAYS, coerce=int, initial=90, help_text="Shorter is safer."
    )
    paths = {"expires_at": "days"}

    def __init__(self, *arguments: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*arguments, **options)
        choices = [(value, label) for value, label in ROLE_CHOICES if actor.may(Role(value))]
        self.fields["role"].choices = choices  # type: ignore[attr-defined]

    def expires_at(self) -> datetime | None:
        """Return when the token ends; None for never."""
        days = self.cleaned_data["days"]
        return timezone.now() + timedelta(days=days) if days else None


class PersonForm(Form):
    """A new person; the password is generated."""

    username = forms.CharField(max_length=150, help_text="What they sign in with.")
    email = forms.EmailField(required=False, max_length=254, label="E-mail")
    role = forms.ChoiceField(
        choices=ROLE_CHOICES,
        initial=Role.VIEWER.value,
        help_text="Viewers read, operators change the fabric, admins also manage people and trust in agents.",
    )


class PersonEditForm(Form):
    """What an admin may change of a person."""

    role = forms.ChoiceField(choices=ROLE_CHOICES, help_text="Takes effect with their next request.")
    is_active = forms.BooleanField(
        label="May sign in", required=False, help_text="Without it their sessions end at once."
    )
