"""Site admin: rollouts and their targets."""

from django.contrib import admin

from fabric.core.admin import ReadOnlyAdmin
from fabric.rollouts.models import Rollout, RolloutTarget


@admin.register(Rollout)
class RolloutAdmin(ReadOnlyAdmin):
    """Rollouts."""

    list_display = ["__str__", "state", "started_by", "created_at", "ended_at"]
    list_filter = ["state"]
    list_select_related = ["pool", "revision__policy"]
    search_fields = ["pool__name", "revision__policy__name"]


@admin.register(RolloutTarget)
class RolloutTargetAdmin(ReadOnlyAdmin):
    """Targets."""

    list_display = ["agent", "generation", "state", "attempts", "reason_code", "updated_at"]
    list_filter = ["state"]
    list_select_related = ["agent"]
    search_fields = ["agent__name"]
