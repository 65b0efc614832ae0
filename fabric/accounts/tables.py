"""Tables of accounts."""

from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fabric.accounts.models import ApiToken, User
from fabric.core.web.tables import Column, MonoColumn, Table, TimeColumn
from fabric.core.web.text import badge


class ApiTokenTable(Table):
    """One's own API tokens, or everybody's for admins."""

    noun = "tokens"
    key_id = MonoColumn(verbose_name="Key")
    state = Column(empty_values=(), orderable=False)
    expires_at = TimeColumn(verbose_name="Expires", default="never")
    last_used_at = TimeColumn(verbose_name="Last used", default="never")
    act = Column(empty_values=(), orderable=False, verbose_name="")

    class Meta(Table.Meta):
        model = ApiToken
        fields = ("name", "key_id", "user", "role", "state", "expires_at", "last_used_at", "act")
        order_by = "-created_at"
        prefix = "tokens-"

    def render_state(self, record: ApiToken) -> SafeString:
        """Return whether the token works."""
        if record.revoked_at:
            return badge("revoked", tone="bad")
        if record.expires_at and record.expires_at <= timezone.now():
            return badge("expired", tone="warn")
        return badge("active", tone="ok")

    def render_act(self, record: ApiToken) -> SafeString | str:
        """Return the way to revoke it."""
        if record.revoked_at:
            return ""
        url = reverse("accounts:revoke-token", args=[record.pk])
        return format_html('<a class="button small danger" href="{}" data-confirm>Revoke</a>', url)


class PersonTable(Table):
    """Everybody who may sign in, or could once."""

    username = Column(linkify=lambda record: reverse("accounts:person", args=[record.pk]), verbose_name="Name")
    is_active = Column(verbose_name="Sign-in")
    last_login = TimeColumn(verbose_name="Last signed in", default="never")

    class Meta(Table.Meta):
        model = User
        fields = ("username", "email", "role", "is_active", "last_login")
        order_by = "username"

    def render_is_active(self, value: bool) -> SafeString:
        """Return whether they may sign in."""
        return badge("allowed", tone="ok") if value else badge("blocked", tone="bad")

    def value_is_active(self, value: bool) -> str:
        """Return the same for exports."""
        return "allowed" if value else "blocked"
