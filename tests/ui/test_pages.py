"""Every page: who may see it, and that what is served is sound HTML."""

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from fabric.audit.models import AuditEntry
from tests.ui.html import Document, faults_of
from tests.ui.world import NEW, READ_ALONE, World, admin_pages, read_pages, write_pages

PARTS = ("/status/", "/progress/")
APPS = ("telemetry", "accounts", "audit", "inventory", "pools", "agents", "policies", "rollouts")


def _is_part(path: str) -> bool:
    return path.endswith(PARTS)


def _every_page(world: World) -> list[str]:
    return [*read_pages(world), *write_pages(world), *admin_pages(world)]


def test_pages_answer_an_admin_with_sound_html(admin: Client, world: World) -> None:
    faults = {}
    for path in _every_page(world):
        response = admin.get(path)
        assert response.status_code == 200, f"{path}: {response.status_code}"
        if found := faults_of(response.content.decode(), whole=not _is_part(path)):
            faults[path] = found
    assert not faults, faults


def test_pages_of_an_empty_fabric_teach_and_are_sound(admin: Client) -> None:
    for path in [*READ_ALONE, *NEW]:
        response = admin.get(path)
        assert response.status_code == 200, path
        assert not faults_of(response.content.decode(), whole=not _is_part(path)), path
    for path in ("/agents/", "/pools/", "/policies/", "/inventory/hosts/", "/inventory/switches/"):
        text = admin.get(path).content.decode()
        assert "yet" in text, path
        assert 'class="empty"' in text, path
    assert "No agent has joined yet" in admin.get("/").content.decode()


def test_anonymous_is_sent_to_the_login_page_from_every_page(client: Client, world: World) -> None:
    for path in _every_page(world):
        response = client.get(path)
        assert response.status_code == 302, path
        assert response["Location"].startswith("/login/?next=/"), path


def test_viewer_reads_every_page_and_sees_no_way_to_change_anything(viewer: Client, world: World) -> None:
    own = ("/account/", "/logout/")
    for path in read_pages(world):
        response = viewer.get(path)
        assert response.status_code == 200, path
        page = Document(response.content.decode())
        posts = [f.attrs.get("action", path) for f in page.all("form") if f.attrs.get("method") == "post"]
        assert not [action for action in posts if not action.startswith(own)], path
        words = {element.text.strip() for element in page.all("a", "button")}
        forbidden = {"Edit", "Delete", "Revoke", "Start rollout", "Pause", "Abort", "Roll back", "Add an agent"}
        if path != "/account/":
            assert not words & forbidden, path
        assert "Site admin" not in words


def test_viewer_is_refused_every_change_and_nothing_changes(viewer: Client, world: World) -> None:
    before = AuditEntry.objects.count()
    for path in write_pages(world):
        assert viewer.get(path).status_code == 403, path
        response = viewer.post(path, {"name": "x", "reason": "", "slug": "x"})
        assert response.status_code == 403, path
        assert "viewer" in response.content.decode(), path
    start = viewer.post("/rollouts/start/", {"pool": world.pool.pk, "revision": world.revision.pk})
    assert start.status_code == 403
    assert AuditEntry.objects.count() == before


def test_people_are_managed_by_admins_alone(operator: Client, viewer: Client, world: World) -> None:
    before = AuditEntry.objects.count()
    for client in (operator, viewer):
        for path in admin_pages(world):
            assert client.get(path).status_code == 403, path
            assert client.post(path, {"username": "x", "role": "admin", "is_active": "on"}).status_code == 403, path
        assert "/people/" not in client.get("/").content.decode()
    assert AuditEntry.objects.count() == before


def test_operator_sees_the_ways_to_change_things(operator: Client, world: World) -> None:
    texts = {
        world.agent.get_absolute_url(): {"Edit", "Revoke"},
        world.pool.get_absolute_url(): {"Add an agent", "Edit", "Delete"},
        world.policy.get_absolute_url(): {"Edit", "Rename", "Delete"},
        world.revision.get_absolute_url(): {"Start rollout"},
        world.rollout.get_absolute_url(): {"Pause", "Abort"},
        world.host.get_absolute_url(): {"Edit", "Delete"},
    }
    for path, expected in texts.items():
        page = Document(operator.get(path).content.decode())
        assert expected <= {element.text.strip() for element in page.all("a", "button")}, path


def test_every_route_of_a_page_is_among_the_pages_tested(world: World) -> None:
    """A new page must be put into `world.read_pages` or `write_pages`, where the other tests take it up."""
    tested = {get_resolver().resolve(path.split("?")[0]).view_name for path in _every_page(world)}
    apart = {
        "accounts:login",
        "accounts:logout",
        "accounts:preferences",
        "accounts:theme",
        "accounts:password",
        "accounts:create-token",
        "accounts:revoke-token",
        "rollouts:start",
    }
    missing = {name for name in _routes() if name.split(":")[0] in APPS} - tested - apart
    assert not missing


def _routes(resolver: URLResolver | None = None, prefix: str = "") -> list[str]:
    names = []
    for pattern in (resolver or get_resolver()).url_patterns:
        if isinstance(pattern, URLResolver):
            space = f"{prefix}{pattern.namespace}:" if pattern.namespace else prefix
            names += _routes(pattern, space)
        elif isinstance(pattern, URLPattern) and pattern.name and prefix:
            names.append(f"{prefix}{pattern.name}")
    return names


@pytest.mark.parametrize("path", ["/nowhere/", "/pools/00000000-0000-0000-0000-000000000000/", "/policies/not-a-uuid/"])
def test_what_does_not_exist_is_a_404_page(admin: Client, path: str) -> None:
    response = admin.get(path)
    assert response.status_code == 404
    assert not faults_of(response.content.decode())
    assert "Not found" in response.content.decode()


def test_missing_objects_are_404_on_every_page_of_one_thing(admin: Client, world: World) -> None:
    absent = "00000000-0000-0000-0000-000000000000"
    for path in _every_page(world):
        for thing in vars(world).values():
            if str(thing.pk) in path:
                gone = path.replace(str(thing.pk), absent)
                if "/join/" not in gone:
                    assert admin.get(gone).status_code == 404, gone


def test_errors_of_program_addresses_are_problem_bodies(admin: Client) -> None:
    response = admin.get("/api/v1/nowhere/")
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == 404


def test_a_broken_page_says_so_without_showing_why(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("fabric.audit.views.audit_entries_for_list", boom)
    admin.raise_request_exception = False
    response = admin.get("/audit/")
    text = response.content.decode()
    assert response.status_code == 500
    assert "Something broke" in text
    assert "secret detail" not in text
    assert not faults_of(text)


def test_csp_of_pages_allows_no_inline_script(admin: Client) -> None:
    policy = admin.get("/")["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "script-src 'self' '" not in policy


def test_api_page_is_ours_and_runs_no_inline_script(viewer: Client) -> None:
    response = viewer.get("/api/docs/")
    assert response.status_code == 200
    assert not faults_of(response.content.decode())
    page = Document(response.content.decode())
    assert [e.attrs["data-schema-url"] for e in page.elements if "data-schema-url" in e.attrs]
    assert all(script.attrs.get("src", "").startswith("/static/") for script in page.all("script"))
    assert viewer.get("/api/schema/").status_code == 200


def test_navigation_marks_where_one_is(admin: Client, world: World) -> None:
    page = Document(admin.get(world.host.get_absolute_url()).content.decode())
    current = [a for a in page.all("a") if a.attrs.get("aria-current") in ("page", "true") and a.inside("nav")]
    assert [a.text.strip() for a in current] == ["Hosts"]
