"""Site admin: pools."""

from django.contrib import admin

from fabric.core.admin import ReadOnlyAdmin
from fabric.pools.models import Pool


@admin.register(Pool)
class PoolAdmin(ReadOnlyAdmin):
    """Pools."""

    list_display = ["name", "pod", "version", "updated_at"]
    list_select_related = ["pod__site"]
    search_fields = ["name"]
