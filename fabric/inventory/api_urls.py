"""Routes of the inventory API, below /api/v1/."""

from rest_framework.routers import SimpleRouter

from fabric.inventory import api

router = SimpleRouter(use_regex_path=False)
router.register("sites", api.SiteViewSet, basename="site")
router.register("pods", api.PodViewSet, basename="pod")
router.register("hosts", api.HostViewSet, basename="host")
router.register("dpus", api.DpuViewSet, basename="dpu")
router.register("ssds", api.SsdViewSet, basename="ssd")
router.register("switches", api.SwitchViewSet, basename="switch")
router.register("interfaces", api.NetworkInterfaceViewSet, basename="interface")

urlpatterns = router.urls
