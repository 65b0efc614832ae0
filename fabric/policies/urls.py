"""Routes of the policy pages."""

from django.urls import path

from fabric.policies import views

app_name = "policies"
urlpatterns = [
    path("", views.PolicyList.as_view(), name="list"),
    path("new/", views.PolicyCreate.as_view(), name="create"),
    path("<uuid:pk>/", views.PolicyDetail.as_view(), name="detail"),
    path("<uuid:pk>/rename/", views.PolicyRename.as_view(), name="rename"),
    path("<uuid:pk>/delete/", views.PolicyDelete.as_view(), name="delete"),
    path("<uuid:pk>/edit/", views.PolicyEdit.as_view(), name="edit"),
    path("<uuid:pk>/edit/text/", views.PolicyEditText.as_view(), name="edit-text"),
    path("<uuid:pk>/revisions/<int:number>/", views.RevisionDetail.as_view(), name="revision"),
]
