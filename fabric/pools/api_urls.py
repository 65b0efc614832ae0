"""Routes of the pools API, below /api/v1/."""

from rest_framework.routers import SimpleRouter

from fabric.pools.api import PoolViewSet

router = SimpleRouter(use_regex_path=False)
router.register("pools", PoolViewSet, basename="pool")

urlpatterns = router.urls
