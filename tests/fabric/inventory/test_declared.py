"""What operators declare, by service and by door."""

import uuid
from typing import Any

import pytest
from rest_framework.test import APIClient

from fabric.audit.models import AuditEntry
from fabric.core.actor import Actor
from fabric.core.errors import Blocked, Conflict, Invalid, NotAllowed, NotFound
from fabric.inventory import services
from fabric.inventory.models import Dpu, Host, Pod, Site, Source, Ssd, Switch
from fabric.pools.models import Pool

pytestmark = pytest.mark.django_db


@pytest.fixture
def site(operator: Actor) -> Site:
    """Return a site."""
    return services.create_site(actor=operator, name="Frankfurt", slug="fra")


@pytest.fixture
def pod(operator: Actor, site: Site) -> Pod:
    """Return a pod."""
    return services.create_pod(actor=operator, site_id=site.pk, name="pod-1")


@pytest.fixture
def host(operator: Actor, pod: Pod) -> Host:
    """Return a declared host."""
    return services.create_host(actor=operator, name="gpu-01", pod_id=pod.pk)


def fields_refused(call: Any) -> list[str]:
    """Return the fields that the service names."""
    with pytest.raises(Invalid) as refused:
        call()
    return [problem.field for problem in refused.value.problems]


def test_site_and_pod_names_are_taken_once_in_their_place(operator: Actor, site: Site, pod: Pod) -> None:
    other = services.create_site(actor=operator, name="Paris", slug="par")
    services.create_pod(actor=operator, site_id=other.pk, name="pod-1")
    with pytest.raises(Conflict):
        services.create_pod(actor=operator, site_id=site.pk, name="pod-1")
    with pytest.raises(Conflict):
        services.create_site(actor=operator, name="Frankfurt", slug="f2")
    with pytest.raises(Conflict):
        services.update_site(actor=operator, site_id=other.pk, slug="fra")


@pytest.mark.parametrize("slug", ["", "A", "a b", "-a", "a--b", "ä", "x" * 101, "a/b"])
def test_slug_that_is_none_is_refused(operator: Actor, slug: str) -> None:
    assert fields_refused(lambda: services.create_site(actor=operator, name="n", slug=slug)) == ["slug"]


def test_every_fault_is_told_at_once(operator: Actor) -> None:
    faults = fields_refused(
        lambda: services.create_ssd(
            actor=operator,
            name="",
            host_id=uuid.uuid4(),
            capacity_bytes=0,
            logical_block_bytes=1 << 31,
            endurance_dwpd=0,
            life_cycle="dead",
            serial="a\nb",
        )
    )
    assert faults == ["name", "host", "capacity_bytes", "logical_block_bytes", "endurance_dwpd", "life_cycle", "serial"]
    assert not Ssd.objects.exists()


def test_missing_name_or_site_is_a_fault_and_not_an_exception(operator: Actor) -> None:
    assert fields_refused(lambda: services.create_host(actor=operator)) == ["name"]
    assert "site" in fields_refused(lambda: services.create_pod(actor=operator, name="p"))


def test_column_that_nobody_declares_is_a_programming_error(operator: Actor, host: Host) -> None:
    facts: Any = {"machine_id_hash": "x"}
    with pytest.raises(TypeError):
        services.update_host(actor=operator, host_id=host.pk, **facts)


def test_declared_row_says_so_and_is_audited(operator: Actor, host: Host) -> None:
    assert (host.source, host.first_seen_at) == (Source.DECLARED, None)
    row = AuditEntry.objects.get(object_id=str(host.pk))
    assert (row.verb, row.after["name"]) == ("create", "gpu-01")


def test_change_is_audited_with_what_changed_only(operator: Actor, host: Host) -> None:
    services.update_host(actor=operator, host_id=host.pk, name="gpu-02", notes="new name", memory_bytes=None)
    row = AuditEntry.objects.get(object_id=str(host.pk), verb="update")
    assert (row.before, row.after) == (
        {"name": "gpu-01", "notes": ""},
        {"name": "gpu-02", "notes": "new name"},
    )


def test_editing_a_hard_fact_takes_a_discovered_row_over_and_a_note_does_not(operator: Actor) -> None:
    host = Host.objects.create(name="h", source=Source.DISCOVERED, model="X", source_detail="agent a via sysfs")
    services.update_host(actor=operator, host_id=host.pk, notes="in rack 3", life_cycle="maintenance")
    host.refresh_from_db()
    assert host.source == Source.DISCOVERED
    services.update_host(actor=operator, host_id=host.pk, model="Y")
    host.refresh_from_db()
    assert (host.source, host.source_detail) == (Source.DECLARED, f"edited by {operator.name}")


def test_drive_is_known_by_serial_and_model_or_by_its_place(operator: Actor, host: Host) -> None:
    services.create_ssd(actor=operator, name="nvme0n1", serial="S1", model="M", host_id=host.pk)
    services.create_ssd(actor=operator, name="nvme0n1", serial="S1", model="other", host_id=host.pk)
    services.create_ssd(actor=operator, name="spare", host_id=host.pk)
    services.create_ssd(actor=operator, name="spare")
    services.create_ssd(actor=operator, name="spare")
    with pytest.raises(Conflict):
        services.create_ssd(actor=operator, name="again", serial="S1", model="M")
    with pytest.raises(Conflict):
        services.create_ssd(actor=operator, name="spare", host_id=host.pk)
    assert Ssd.objects.count() == 5


@pytest.mark.parametrize(("create", "model"), [("create_dpu", Dpu), ("create_switch", Switch)])
def test_serial_number_is_taken_once_and_a_placeholder_is_none(operator: Actor, create: str, model: Any) -> None:
    make = getattr(services, create)
    make(actor=operator, name="one", serial="SN-1")
    with pytest.raises(Conflict):
        make(actor=operator, name="two", serial="SN-1")
    for _ in range(2):
        assert make(actor=operator, name="blank", serial="To Be Filled By O.E.M.").serial == ""
    assert model.objects.count() == 3


@pytest.mark.parametrize(
    ("mac", "kept"),
    [("02:00:5E:10:00:01", "02:00:5e:10:00:01"), ("02-00-5e-10-00-01", "02:00:5e:10:00:01"), ("", "")],
)
def test_mac_is_kept_in_one_spelling(operator: Actor, mac: str, kept: str) -> None:
    assert services.create_dpu(actor=operator, name="d", base_mac=mac).base_mac == kept


@pytest.mark.parametrize("mac", ["02:00:5e:10:00", "zz:00:5e:10:00:01", "0200.5e10.0001"])
def test_mac_that_is_none_is_refused(operator: Actor, mac: str) -> None:
    assert fields_refused(lambda: services.create_dpu(actor=operator, name="d", base_mac=mac)) == ["base_mac"]


def test_what_holds_something_is_kept_and_names_it(operator: Actor, site: Site, pod: Pod, host: Host) -> None:
    services.create_switch(actor=operator, name="leaf-1", pod_id=pod.pk)
    Pool.objects.create(name="warm", pod=pod)
    with pytest.raises(Blocked) as blocked:
        services.delete_site(actor=operator, site_id=site.pk)
    assert [problem.field for problem in blocked.value.problems] == ["pods"]
    with pytest.raises(Blocked) as blocked:
        services.delete_pod(actor=operator, pod_id=pod.pk)
    assert [problem.field for problem in blocked.value.problems] == ["hosts", "switches", "pools"]
    assert Site.objects.count() == Pod.objects.count() == 1


def test_host_goes_with_its_devices(operator: Actor, host: Host) -> None:
    services.create_ssd(actor=operator, name="d", host_id=host.pk)
    services.delete_host(actor=operator, host_id=host.pk)
    assert not Ssd.objects.exists()
    with pytest.raises(NotFound):
        services.delete_host(actor=operator, host_id=host.pk)


def test_viewer_declares_nothing(viewer: Actor, host: Host) -> None:
    for call in (
        lambda: services.create_host(actor=viewer, name="x"),
        lambda: services.update_host(actor=viewer, host_id=host.pk, name="x"),
        lambda: services.delete_host(actor=viewer, host_id=host.pk),
    ):
        with pytest.raises(NotAllowed):
            call()
    assert Host.objects.get().name == "gpu-01"


KINDS = {
    "sites": ({"name": "a", "slug": "a"}, {"description": "d"}),
    "pods": ({"name": "a"}, {"description": "d"}),
    "hosts": ({"name": "a", "memory_bytes": 1 << 40, "cpu_threads": 8}, {"os": "Debian 12"}),
    "dpus": ({"name": "a", "mode": "dpu", "base_mac": "02:00:5e:10:00:01", "port_count": 2}, {"notes": "n"}),
    "ssds": (
        {"name": "a", "capacity_bytes": 1 << 43, "endurance_dwpd": 1.5, "rotational": False},
        {"transport": "pcie"},
    ),
    "switches": ({"name": "a", "management_address": "10.0.0.1", "port_count": 64}, {"life_cycle": "planned"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_made_read_changed_listed_and_removed_through_the_door(
    api: APIClient, pod: Pod, kind: str
) -> None:
    facts, change = KINDS[kind]
    if kind == "pods":
        facts = {**facts, "site": str(pod.site_id)}
    path = f"/api/v1/{kind}/"
    made = api.post(path, facts, format="json")
    assert made.status_code == 201, made.content
    assert {name: made.json()[name] for name in facts} == facts
    one = f"{path}{made.json()['id']}/"
    changed = api.patch(one, change, format="json", headers={"If-Match": made["ETag"]})
    assert changed.status_code == 200, changed.content
    assert {name: api.get(one).json()[name] for name in change} == change
    assert made.json()["id"] in [row["id"] for row in api.get(path).json()["results"]]
    assert api.delete(one, headers={"If-Match": changed["ETag"]}).status_code == 204
    assert api.get(one).status_code == 404


@pytest.mark.parametrize(
    "field", ["source", "first_seen_at", "temperature_c", "source_detail", "host_name", "created_at"]
)
def test_what_only_discovery_writes_cannot_be_sent(api: APIClient, field: str) -> None:
    response = api.post("/api/v1/ssds/", {"name": "a", field: "x"}, format="json")
    assert response.json()["problems"][0]["field"] == field
    assert not Ssd.objects.exists()


def test_lists_are_filtered_by_place_kind_and_state(api: APIClient, operator: Actor, host: Host) -> None:
    services.create_ssd(actor=operator, name="a", serial="S1", model="PM1743", host_id=host.pk, capacity_bytes=2)
    services.create_ssd(actor=operator, name="b", life_cycle="planned", capacity_bytes=1)
    names = lambda query: [row["name"] for row in api.get(f"/api/v1/ssds/?{query}").json()["results"]]  # noqa: E731
    assert names("ordering=capacity_bytes") == ["b", "a"]
    assert names(f"host={host.pk}") == names("serial=s1") == names("model=pm17") == ["a"]
    assert names("life_cycle=planned") == ["b"]
    assert names("source=discovered") == []
    hosts = api.get(f"/api/v1/hosts/?site={host.pod.site_id if host.pod else ''}").json()["results"]
    assert [(row["name"], row["ssd_count"], row["pod_name"]) for row in hosts] == [("gpu-01", 1, "pod-1")]
