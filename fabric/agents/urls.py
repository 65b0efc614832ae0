"""Routes of the agent pages."""

from django.urls import path

from fabric.agents import views

app_name = "agents"
urlpatterns = [
    path("", views.AgentList.as_view(), name="list"),
    path("join/", views.JoinPage.as_view(), name="join"),
    path("join/<uuid:pk>/revoke/", views.RevokeJoinToken.as_view(), name="revoke-token"),
    path("<uuid:pk>/", views.AgentDetail.as_view(), name="detail"),
    path("<uuid:pk>/status/", views.AgentStatus.as_view(), name="status"),
    path("<uuid:pk>/edit/", views.AgentEdit.as_view(), name="edit"),
    path("<uuid:pk>/delete/", views.AgentDelete.as_view(), name="delete"),
    path("<uuid:pk>/<slug:verb>/", views.TrustAgent.as_view(), name="trust"),
]
