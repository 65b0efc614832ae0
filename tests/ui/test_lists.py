"""Lists: filter, sort, pages, export, and that a longer list costs no more queries."""

import csv
import io
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fabric.inventory.models import Dpu, Host, Pod, Site, Ssd, Switch
from fabric.inventory.services import create_pod, create_site
from fabric.policies.services import assign_policy, create_policy
from fabric.pools.services import create_pool
from fabric.rollouts.models import Rollout
from tests.ui.html import Document
from tests.ui.world import LISTS, OPERATOR, World, make_agent, make_host


def _rows(client: Client, path: str) -> list[list[str]]:
    page = Document(client.get(path).content.decode())
    body = [row for row in page.all("tr") if row.inside("tbody")]
    return [[cell.text.strip() for cell in page.all("td") if cell.parent is row] for row in body]


def _names(client: Client, path: str) -> list[str]:
    return [row[0] for row in _rows(client, path)]


def _more(world: World, number: int) -> None:
    """Make one more of everything that lists show."""
    site = create_site(actor=OPERATOR, name=f"Site {number}", slug=f"site-{number}")
    pod = create_pod(actor=OPERATOR, site_id=site.pk, name="pod")
    pool = create_pool(actor=OPERATOR, name=f"pool-{number}", pod_id=pod.pk)
    policy = create_policy(actor=OPERATOR, name=f"policy-{number}")
    assign_policy(actor=OPERATOR, pool_id=pool.pk, policy_id=policy.pk)
    host = make_host(f"host-{number}", pod)
    make_agent(pool, f"agent-{number}", host=host)
    dpu = Dpu.objects.create(name=f"dpu-{number}", host=host)
    Ssd.objects.create(name="nvme0n1", host=host, dpu=dpu, serial=f"S-{number}")
    Switch.objects.create(name=f"leaf-{number}", pod=pod)
    Rollout.objects.create(
        pool=pool,
        revision=world.revision,
        state="succeeded",
        started_by="olga",
        last_progress_at=timezone.now(),
        ended_at=timezone.now(),
    )


@pytest.mark.parametrize("path", [*LISTS, "/", "/search/?q=a", "/account/", "/agents/join/"])
def test_query_count_does_not_grow_with_the_list(operator: Client, world: World, path: str) -> None:
    _more(world, 0)
    operator.get(path)  # fills caches that a process keeps

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert operator.get(path).status_code == 200
        return len(queries)

    before = count()
    for number in range(1, 7):
        _more(world, number)
    assert count() == before
    assert before <= 25, f"{path} asks {before} queries"


def test_search_finds_each_word_in_any_field(viewer: Client, world: World) -> None:
    make_host("gpu-02")
    Host.objects.create(name="storage-01", manufacturer="Acme", serial="XJ9")
    assert set(_names(viewer, "/inventory/hosts/")) == {"gpu-01", "gpu-02", "storage-01"}
    assert _names(viewer, "/inventory/hosts/?q=acme+storage") == ["storage-01"]
    assert _names(viewer, "/inventory/hosts/?q=xj9") == ["storage-01"]
    assert _names(viewer, "/inventory/hosts/?q=acme+gpu") == []
    assert "Nothing matches" in viewer.get("/inventory/hosts/?q=acme+gpu").content.decode()


def test_choices_narrow_a_list_and_bad_ones_are_named(viewer: Client, world: World) -> None:
    Host.objects.create(name="planned-01", life_cycle="planned")
    assert _names(viewer, "/inventory/hosts/?life_cycle=planned") == ["planned-01"]
    assert _names(viewer, "/inventory/hosts/?source=discovered") == ["gpu-01"]
    response = viewer.get("/inventory/hosts/?life_cycle=nonsense")
    assert response.status_code == 200
    assert "nonsense is not one of the available choices" in response.content.decode()


def test_sorting_follows_the_address_and_ignores_unknown_columns(viewer: Client, world: World) -> None:
    make_host("a-host")
    make_host("z-host")
    assert _names(viewer, "/inventory/hosts/?sort=name") == ["a-host", "gpu-01", "z-host"]
    assert _names(viewer, "/inventory/hosts/?sort=-name") == ["z-host", "gpu-01", "a-host"]
    assert viewer.get("/inventory/hosts/?sort=password").status_code == 200
    page = Document(viewer.get("/inventory/hosts/?sort=-name").content.decode())
    assert [th.text.strip() for th in page.all("th") if th.attrs.get("aria-sort") == "descending"] == ["Name"]


def test_pages_of_a_long_list_say_where_one_is(viewer: Client, world: World) -> None:
    Site.objects.bulk_create(Site(name=f"s{number:03}", slug=f"s{number:03}") for number in range(120))
    text = viewer.get("/inventory/sites/?page=2").content.decode()
    assert "51–100 of 121 sites" in text
    assert len(_names(viewer, "/inventory/sites/?page=3")) == 21
    assert _names(viewer, "/inventory/sites/?page=999") == _names(viewer, "/inventory/sites/?page=3")
    for bad in ("page=x", "page=-1", "page=1&per_page=100000", "page=99999999999999999999"):
        assert viewer.get(f"/inventory/sites/?{bad}").status_code == 200, bad
    assert len(_names(viewer, "/inventory/sites/?per_page=100000")) == 121


@pytest.mark.parametrize("path", LISTS)
def test_every_list_exports_its_rows_as_csv(viewer: Client, world: World, path: str) -> None:
    response = viewer.get(f"{path}?export=csv")
    assert response["Content-Type"].startswith("text/csv")
    assert response["Content-Disposition"].startswith("attachment")
    rows = list(csv.reader(io.StringIO(response.content.decode())))
    assert len(rows) >= 2
    assert all(len(row) == len(rows[0]) for row in rows)
    assert "<" not in response.content.decode()


def test_export_holds_the_filtered_rows_in_base_units_and_no_formulas(viewer: Client, world: World) -> None:
    Pod.objects.create(site=world.site, name="=HYPERLINK(1)", description="@evil")
    rows = list(csv.reader(io.StringIO(viewer.get("/inventory/pods/?export=csv").content.decode())))
    assert any("'=HYPERLINK(1)" in row for row in rows)
    assert not any(cell.startswith(("=", "@")) for row in rows for cell in row)
    ssds = list(csv.DictReader(io.StringIO(viewer.get("/inventory/ssds/?export=csv&q=nvme").content.decode())))
    assert ssds[0]["Capacity"] == str(4 << 40)


def test_audit_log_is_found_by_day_and_object(viewer: Client, world: World) -> None:
    today = timezone.now().date().isoformat()
    assert _rows(viewer, f"/audit/?since={today}&until={today}")
    assert not _rows(viewer, "/audit/?until=2001-01-01")
    mine = _rows(viewer, f"/audit/?object_type=pools.pool&object_id={world.pool.pk}")
    assert mine
    assert all(row[3].startswith("pool warm") for row in mine)


def test_search_page_looks_everywhere_and_links_what_it_finds(viewer: Client, world: World) -> None:
    page = Document(viewer.get("/search/?q=kv-01").content.decode())
    assert world.agent.get_absolute_url() in [a.attrs.get("href") for a in page.all("a")]
    found: Callable[[str], str] = lambda query: viewer.get(f"/search/?q={query}").content.decode()  # noqa: E731
    assert world.ssd.get_absolute_url() in found("S1")
    assert world.switch.get_absolute_url() in found("leaf")
    assert "Nothing found" in found("no-such-thing")
    assert "&lt;script&gt;" in found("<script>")
