"""Site admin: policies, their revisions, and which pool runs which."""

from django.contrib import admin

from fabric.core.admin import ReadOnlyAdmin
from fabric.policies.models import Policy, PoolPolicy, Revision


@admin.register(Policy)
class PolicyAdmin(ReadOnlyAdmin):
    """Policies."""

    list_display = ["name", "version", "updated_at"]
    search_fields = ["name"]


@admin.register(Revision)
class RevisionAdmin(ReadOnlyAdmin):
    """Revisions."""

    list_display = ["__str__", "digest", "created_by", "created_at"]
    list_select_related = ["policy"]
    search_fields = ["policy__name", "digest"]


@admin.register(PoolPolicy)
class PoolPolicyAdmin(ReadOnlyAdmin):
    """Policies of pools."""

    list_display = ["pool", "policy", "current_revision", "updated_at"]
    list_select_related = ["pool", "policy", "current_revision__policy"]
