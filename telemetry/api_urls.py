"""Routes of the telemetry API, below /api/v1/telemetry/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from telemetry.api import FramesView, KpisView, SeriesView, StatusView, TargetViewSet

router = SimpleRouter(use_regex_path=False)
router.register("targets", TargetViewSet, basename="scrape-target")

urlpatterns = [
    path("kpis/", KpisView.as_view(), name="telemetry-kpis"),
    path("series/", SeriesView.as_view(), name="telemetry-series"),
    path("status/", StatusView.as_view(), name="telemetry-status"),
    path("topics/<str:topic>/frames/", FramesView.as_view(), name="telemetry-frames"),
    *router.urls,
]
