"""Composition root of the REST API, version 1."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

urlpatterns = [
    path("v1/", include("fabric.accounts.api_urls")),
    path("v1/", include("fabric.audit.api_urls")),
    path("v1/", include("fabric.inventory.api_urls")),
    path("v1/", include("fabric.pools.api_urls")),
    path("v1/", include("fabric.agents.api_urls")),
    path("v1/", include("fabric.policies.api_urls")),
    path("v1/", include("fabric.rollouts.api_urls")),
    path("v1/telemetry/", include("telemetry.api_urls")),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerView.as_view(url_name="schema"), name="api-docs"),
]
