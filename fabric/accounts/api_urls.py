"""Routes of the accounts API, below /api/v1/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from fabric.accounts.api import ApiTokenViewSet, MeViewSet, UserViewSet

router = SimpleRouter(use_regex_path=False)
router.register("users", UserViewSet, basename="user")
router.register("tokens", ApiTokenViewSet, basename="token")

urlpatterns = [
    path("me/", MeViewSet.as_view({"get": "show", "patch": "change"}), name="me"),
    path("me/password/", MeViewSet.as_view({"post": "change_password"}), name="me-password"),
    *router.urls,
]
