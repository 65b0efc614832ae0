"""Filters of the list of pools."""

from fabric.core.web.filters import FilterSet, ModelChoiceFilter
from fabric.inventory.models import Pod
from fabric.pools.models import Pool


class PoolFilter(FilterSet):
    """Search and pod."""

    search_fields = ("name", "description", "pod__name")
    pod = ModelChoiceFilter(queryset=Pod.objects.select_related("site"), empty_label="any")

    class Meta:
        model = Pool
        fields: list[str] = []
