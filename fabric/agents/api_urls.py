"""Routes of the agents API, below /api/v1/."""

from rest_framework.routers import SimpleRouter

from fabric.agents.api import AgentViewSet, JoinTokenViewSet

router = SimpleRouter(use_regex_path=False)
router.register("agents", AgentViewSet, basename="agent")
router.register("join-tokens", JoinTokenViewSet, basename="join-token")

urlpatterns = router.urls
