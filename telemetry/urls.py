"""Routes of the pages that look over everything."""

from django.urls import path

from telemetry.views import Overview, OverviewStatus, Search

app_name = "telemetry"
urlpatterns = [
    path("", Overview.as_view(), name="overview"),
    path("status/", OverviewStatus.as_view(), name="status"),
    path("search/", Search.as_view(), name="search"),
]
