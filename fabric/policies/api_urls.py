"""Routes of the policies API, below /api/v1/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from fabric.policies.api import PolicyValidationViewSet, PolicyViewSet, PoolPolicyViewSet, RevisionViewSet

router = SimpleRouter(use_regex_path=False)
router.register("policies/<uuid:policy_pk>/revisions", RevisionViewSet, basename="revision")
router.register("policies", PolicyViewSet, basename="policy")

urlpatterns = [
    path("policies/validate/", PolicyValidationViewSet.as_view({"post": "create"}), name="policy-validate"),
    path(
        "pools/<uuid:pk>/policy/",
        PoolPolicyViewSet.as_view({"get": "retrieve", "put": "update"}),
        name="pool-policy",
    ),
    *router.urls,
]
