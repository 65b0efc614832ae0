"""Routes of accounts."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from fabric.accounts import views

app_name = "accounts"
urlpatterns = [
    path("login/", views.SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("account/", views.Account.as_view(), name="account"),
    path("account/preferences/", views.SavePreferences.as_view(), name="preferences"),
    path("account/theme/", views.SaveTheme.as_view(), name="theme"),
    path("account/password/", views.SavePassword.as_view(), name="password"),
    path("account/tokens/", views.CreateToken.as_view(), name="create-token"),
    path("account/tokens/<uuid:pk>/revoke/", views.RevokeToken.as_view(), name="revoke-token"),
    path("people/", views.PersonList.as_view(), name="people"),
    path("people/new/", views.PersonCreate.as_view(), name="person-create"),
    path("people/<uuid:pk>/", views.PersonEdit.as_view(), name="person"),
    path("people/<uuid:pk>/reset/", views.PersonReset.as_view(), name="person-reset"),
]
