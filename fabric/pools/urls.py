"""Routes of the pool pages."""

from django.urls import path

from fabric.pools import views

app_name = "pools"
urlpatterns = [
    path("", views.PoolList.as_view(), name="list"),
    path("new/", views.PoolCreate.as_view(), name="create"),
    path("<uuid:pk>/", views.PoolDetail.as_view(), name="detail"),
    path("<uuid:pk>/status/", views.PoolStatus.as_view(), name="status"),
    path("<uuid:pk>/edit/", views.PoolEdit.as_view(), name="edit"),
    path("<uuid:pk>/delete/", views.PoolDelete.as_view(), name="delete"),
]
