"""Routes of the core: probes, open by decision 0003."""

from django.urls import path

from fabric.core.health import livez, readyz

urlpatterns = [
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
]
