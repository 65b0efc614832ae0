"""Declaring, changing and deleting hardware by form."""

from django.test import Client

from fabric.audit.models import AuditEntry
from fabric.inventory.models import Host, Site, Source, Ssd, Switch
from tests.ui.html import Document
from tests.ui.world import World


def _errors(response: object) -> list[str]:
    page = Document(response.content.decode())  # type: ignore[attr-defined]
    return [li.text.strip() for li in page.all("li") if li.parent and li.parent.attrs.get("class") == "errors"]


def _form(client: Client, path: str) -> dict[str, str]:
    """Return what a browser would send if the form at `path` were submitted as it is shown."""
    page = Document(client.get(path).content.decode())
    values: dict[str, str] = {}
    for element in page.all("input", "textarea", "select"):
        if not element.inside("main") or not element.inside("form"):
            continue
        name, kind = element.attrs.get("name", ""), element.attrs.get("type", "")
        if (
            not name
            or name == "csrfmiddlewaretoken"
            or (kind in ("radio", "checkbox") and "checked" not in element.attrs)
        ):
            continue
        values[name] = element.attrs.get("value", "on" if kind == "checkbox" else "")
        if element.tag == "textarea":
            values[name] = element.text.strip("\n")
        if element.tag == "select":
            chosen = [o for o in page.all("option") if o.parent is element and "selected" in o.attrs]
            values[name] = chosen[0].attrs.get("value", "") if chosen else ""
    return values


def test_site_is_declared_with_a_short_name_made_of_its_name(operator: Client) -> None:
    response = operator.post("/inventory/sites/new/", {"name": "Frankfurt 2", "slug": "", "description": ""})
    site = Site.objects.get()
    assert response["Location"] == site.get_absolute_url()
    assert site.slug == "frankfurt-2"
    assert AuditEntry.objects.get(verb="create", object_type="inventory.site").object_label == "Frankfurt 2"


def test_missing_and_taken_names_are_said_beside_the_field(operator: Client, world: World) -> None:
    empty = operator.post("/inventory/sites/new/", {"name": "", "slug": ""})
    assert empty.status_code == 422
    assert "This field is required." in _errors(empty)
    taken = operator.post("/inventory/sites/new/", {"name": "Frankfurt", "slug": "other"})
    assert taken.status_code == 422
    assert "Another site has this name: choose another, or edit that one." in _errors(taken)
    assert 'value="Frankfurt"' in taken.content.decode(), "what was typed is kept"
    assert Site.objects.count() == 1


def test_sizes_are_typed_with_units_and_unclear_ones_are_refused(operator: Client, world: World) -> None:
    base = {"name": "nvme9", "life_cycle": "active", "rotational": "unknown", "host": str(world.host.pk)}
    good = operator.post("/inventory/ssds/new/", base | {"capacity_bytes": "1.5 TiB"})
    assert good.status_code == 302
    assert Ssd.objects.get(name="nvme9").capacity_bytes == 3 << 39
    for bad in ("1.5TB", "lots", "-1", "0.3 B"):
        response = operator.post("/inventory/ssds/new/", base | {"name": "x", "capacity_bytes": bad})
        assert response.status_code == 422, bad
        assert any("not a" in error for error in _errors(response)), bad


def test_unknown_facts_stay_unknown(operator: Client) -> None:
    operator.post("/inventory/switches/new/", {"name": "leaf-9", "life_cycle": "planned"})
    switch = Switch.objects.get()
    assert switch.port_count is None
    page = Document(operator.get(switch.get_absolute_url()).content.decode())
    facts = [element.text.strip() for element in page.all("dd")]
    assert "0" not in facts


def test_edit_form_saved_unchanged_changes_nothing(operator: Client, world: World) -> None:
    before = AuditEntry.objects.count()
    for thing in (world.site, world.pod, world.host, world.dpu, world.ssd, world.switch, world.pool):
        path = f"{thing.get_absolute_url()}edit/"
        response = operator.post(path, _form(operator, path))
        assert response.status_code == 302, (path, _errors(response))
    assert AuditEntry.objects.count() == before


def test_editing_a_discovered_fact_takes_the_row_over(operator: Client, world: World) -> None:
    path = f"{world.host.get_absolute_url()}edit/"
    assert "discovered this" in operator.get(path).content.decode()
    operator.post(path, _form(operator, path) | {"memory_bytes": "2 TiB"})
    host = Host.objects.get(pk=world.host.pk)
    assert host.memory_bytes == 2 << 40
    assert host.source == Source.DECLARED


def test_second_of_two_editors_is_told_and_overwrites_nothing(operator: Client, world: World) -> None:
    path = f"{world.switch.get_absolute_url()}edit/"
    mine, theirs = _form(operator, path), _form(operator, path)
    assert operator.post(path, theirs | {"notes": "theirs"}).status_code == 302
    response = operator.post(path, mine | {"notes": "mine"})
    assert response.status_code == 422
    assert "was changed since you read it" in response.content.decode()
    assert Switch.objects.get(pk=world.switch.pk).notes == "theirs"


def test_delete_asks_then_removes_and_keeps_the_reason(operator: Client, world: World) -> None:
    path = f"{world.switch.get_absolute_url()}delete/"
    assert "Delete switch leaf-1?" in operator.get(path).content.decode()
    assert operator.post(path, {"reason": "sold"})["Location"] == "/inventory/switches/"
    assert not Switch.objects.exists()
    assert AuditEntry.objects.get(verb="delete").reason == "sold"


def test_delete_of_what_is_in_use_says_what_holds_it(operator: Client, world: World) -> None:
    response = operator.post(f"{world.site.get_absolute_url()}delete/", {"reason": ""}, follow=True)
    assert Site.objects.exists()
    text = response.content.decode()
    assert "Site Frankfurt is in use." in text
    assert "pod-1 is in it" in text


def test_confirmation_can_be_fetched_as_the_inside_of_a_dialog(operator: Client, world: World) -> None:
    response = operator.get(f"{world.switch.get_absolute_url()}delete/", headers={"X-Fragment": "dialog"})
    page = Document(response.content.decode())
    assert not page.all("html", "nav")
    assert page.all("form")[0].attrs["action"] == f"{world.switch.get_absolute_url()}delete/"
    assert "csrfmiddlewaretoken" in response.content.decode()


def test_what_people_typed_is_shown_as_text_never_as_html(operator: Client, world: World) -> None:
    evil = "<img src=x onerror=alert(1)>"
    operator.post("/inventory/switches/new/", {"name": evil, "life_cycle": "active", "notes": evil})
    switch = Switch.objects.get(name=evil)
    for path in (switch.get_absolute_url(), "/inventory/switches/", "/audit/", "/search/?q=img"):
        text = operator.get(path).content.decode()
        assert evil not in text, path
        assert "&lt;img" in text, path
