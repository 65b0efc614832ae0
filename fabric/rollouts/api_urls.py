"""Routes of the rollouts API, below /api/v1/."""

from rest_framework.routers import SimpleRouter

from fabric.rollouts.api import RolloutTargetViewSet, RolloutViewSet

router = SimpleRouter(use_regex_path=False)
router.register("rollouts/<uuid:rollout_pk>/targets", RolloutTargetViewSet, basename="rollout-target")
router.register("rollouts", RolloutViewSet, basename="rollout")

urlpatterns = router.urls
