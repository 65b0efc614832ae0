"""Site admin: people and tokens, without hashes and digests."""

from django.contrib import admin
from django.contrib.auth.models import Group

from fabric.accounts.models import ApiToken, User
from fabric.core.admin import ReadOnlyAdmin

admin.site.unregister(Group)  # roles are fields of people; groups mean nothing here


@admin.register(User)
class UserAdmin(ReadOnlyAdmin):
    """People."""

    list_display = ["username", "role", "is_active", "last_login"]
    list_filter = ["role", "is_active"]
    search_fields = ["username", "email"]
    fields = ["username", "email", "role", "is_active", "time_zone", "theme", "last_login", "date_joined"]


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """API tokens."""

    list_display = ["name", "key_id", "user", "role", "expires_at", "last_used_at", "revoked_at"]
    list_select_related = ["user"]
    search_fields = ["name", "key_id", "user__username"]
    exclude = ["digest", "pepper_id"]
