"""Routes of the inventory pages: five for each kind of thing."""

from django.urls import URLPattern, path

from fabric.inventory import views
from fabric.inventory.nouns import NOUNS, Noun

app_name = "inventory"


def _routes(noun: Noun) -> list[URLPattern]:
    base = noun.plural_key
    return [
        path(f"{base}/", views.NounList.as_view(kind=noun), name=noun.plural_key),
        path(f"{base}/new/", views.NounCreate.as_view(kind=noun), name=f"{noun.key}-create"),
        path(f"{base}/<uuid:pk>/", views.NounDetail.as_view(kind=noun), name=noun.key),
        path(f"{base}/<uuid:pk>/edit/", views.NounEdit.as_view(kind=noun), name=f"{noun.key}-edit"),
        path(f"{base}/<uuid:pk>/delete/", views.NounDelete.as_view(kind=noun), name=f"{noun.key}-delete"),
    ]


urlpatterns = [route for noun in NOUNS for route in _routes(noun)]
