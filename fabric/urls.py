"""Composition root of pages: names each app's routes."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("telemetry.urls")),
    path("", include("fabric.core.urls")),
    path("", include("fabric.accounts.urls")),
    path("", include("fabric.audit.urls")),
    path("inventory/", include("fabric.inventory.urls")),
    path("pools/", include("fabric.pools.urls")),
    path("agents/", include("fabric.agents.urls")),
    path("policies/", include("fabric.policies.urls")),
    path("rollouts/", include("fabric.rollouts.urls")),
    path("agent/v1/", include("fabric.agents.agent_urls")),
    path("api/", include("fabric.api_urls")),
    path("admin/", admin.site.urls),
]

handler400 = "fabric.core.views.bad_request"
handler403 = "fabric.core.views.permission_denied"
handler404 = "fabric.core.views.page_not_found"
handler500 = "fabric.core.views.server_error"
