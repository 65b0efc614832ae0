"""No change is lost: writes to versioned objects say which version they have seen."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from fabric.agents.models import Agent
from fabric.core.actor import Actor
from fabric.inventory.models import Dpu, Host, Pod, Site, Ssd, Switch
from fabric.pools.models import Pool

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["sites", "pods", "hosts", "dpus", "ssds", "switches", "pools", "agents"])
def thing(request: pytest.FixtureRequest, operator: Actor) -> tuple[str, Any]:
    """Return the path of one object of each versioned kind, and the object."""
    site = Site.objects.create(name="here", slug="here")
    made: dict[str, Any] = {
        "sites": lambda: site,
        "pods": lambda: Pod.objects.create(site=site, name="p"),
        "hosts": lambda: Host.objects.create(name="h"),
        "dpus": lambda: Dpu.objects.create(name="d"),
        "ssds": lambda: Ssd.objects.create(name="s"),
        "switches": lambda: Switch.objects.create(name="w"),
        "pools": lambda: Pool.objects.create(name="pool"),
        "agents": lambda: Agent.objects.create(
            name="a", hostname="a", agent_version="1", public_key="k", manage_url="x", data_url="x", state="revoked"
        ),
    }
    row = made[request.param]()
    return f"/api/v1/{request.param}/{row.pk}/", row


def patch(api: APIClient, path: str, etag: str | None, name: str = "other") -> Any:
    headers = {} if etag is None else {"If-Match": etag}
    return api.patch(path, {"name": name}, format="json", headers=headers)


def test_read_gives_a_strong_etag_that_a_change_moves_on(api: APIClient, thing: tuple[str, Any]) -> None:
    path, row = thing
    first = api.get(path)
    assert first["ETag"] == f'"{row.version}"'
    changed = patch(api, path, first["ETag"])
    assert changed.status_code == 200, changed.content
    assert changed["ETag"] == f'"{row.version + 1}"' == api.get(path)["ETag"]
    assert changed.json()["name"] == "other"


def test_change_without_if_match_is_428(api: APIClient, thing: tuple[str, Any]) -> None:
    path, row = thing
    assert patch(api, path, None).status_code == 428
    assert api.delete(path).status_code == 428
    row.refresh_from_db()
    assert row.name != "other"


def test_second_writer_of_one_version_gets_412_and_changes_nothing(api: APIClient, thing: tuple[str, Any]) -> None:
    path, row = thing
    etag = api.get(path)["ETag"]
    assert patch(api, path, etag, "first").status_code == 200
    late = patch(api, path, etag, "second")
    assert late.status_code == 412
    assert late.json()["type"].endswith(":stale-version")
    assert api.delete(path, headers={"If-Match": etag}).status_code == 412
    row.refresh_from_db()
    assert row.name == "first"


@pytest.mark.parametrize(
    ("etag", "status"),
    [
        ("*", 400),
        ("1", 400),
        ('"x"', 400),
        ('"1", "2"', 400),
        ('"-1"', 400),
        ('"٣"', 400),
        ('"' + "9" * 400 + '"', 400),
        ('W/"1"', 412),
        ('"999"', 412),
        (" ", 428),
    ],
)
def test_if_match_that_is_not_the_one_etag_is_refused(api: APIClient, etag: str, status: int) -> None:
    row = Pool.objects.create(name="pool")
    path = f"/api/v1/pools/{row.pk}/"
    assert patch(api, path, etag.encode().decode("latin-1")).status_code == status
    row.refresh_from_db()
    assert row.version == 1


def test_delete_with_the_current_etag_removes_it(api: APIClient, thing: tuple[str, Any]) -> None:
    path, _ = thing
    assert api.delete(path, headers={"If-Match": '"1"'}).status_code == 204
    assert api.get(path).status_code == 404


def test_change_that_changes_nothing_keeps_the_version(api: APIClient, thing: tuple[str, Any]) -> None:
    path, row = thing
    assert patch(api, path, '"1"', row.name)["ETag"] == '"1"'


def test_created_object_comes_with_its_etag(api: APIClient) -> None:
    assert api.post("/api/v1/pools/", {"name": "new"}, format="json")["ETag"] == '"1"'
