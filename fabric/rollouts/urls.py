"""Routes of the rollout pages."""

from django.urls import path

from fabric.rollouts import views

app_name = "rollouts"
urlpatterns = [
    path("", views.RolloutList.as_view(), name="list"),
    path("start/", views.StartRollout.as_view(), name="start"),
    path("<uuid:pk>/", views.RolloutPage.as_view(), name="detail"),
    path("<uuid:pk>/progress/", views.RolloutProgress.as_view(), name="progress"),
    path("<uuid:pk>/<slug:verb>/", views.ActOnRollout.as_view(), name="act"),
]
