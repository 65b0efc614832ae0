"""Whatever document is sent to whichever door: never a server error."""

from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import cache
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.core.actor import Role
from fabric.inventory.models import Host, Pod, Site
from fabric.pools.models import Pool
from tests.fabric.agents.joining import CAPABILITIES, Joiner
from tests.fabric.people import Door, person

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["", "\x00", "../../x", "a" * 300, "%s%n", "{{7*7}}", "' OR 1=1--", "2026-13-45", "10.0.0.0/33"]),
    st.sampled_from(["11111111-1111-4111-8111-111111111111", "active", "discovered", "admin", "02:00:5e:10:00:01"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = {
    "sites": ["name", "slug", "description"],
    "pods": ["name", "site", "description"],
    "hosts": ["name", "pod", "serial", "memory_bytes", "cpu_threads", "life_cycle", "notes", "os"],
    "dpus": ["name", "host", "base_mac", "port_count", "mode", "serial"],
    "ssds": ["name", "host", "dpu", "capacity_bytes", "endurance_dwpd", "rotational", "serial", "model", "nqn"],
    "switches": ["name", "pod", "port_count", "management_address", "serial"],
    "pools": ["name", "pod", "description"],
    "join-tokens": ["name", "pool", "expected_serial", "allowed_cidr", "max_uses", "needs_approval", "life_s"],
    "tokens": ["name", "role", "expires_at"],
    "users": ["username", "role", "email"],
}
QUIET = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def client(db: None) -> Any:
    """Return an admin with a session."""
    door = Door()
    door.force_login(person(Role.ADMIN))
    return door


@pytest.mark.parametrize("kind", FIELDS)
@QUIET
@given(data=st.data())
def test_no_body_makes_a_server_error(client: Any, kind: str, data: st.DataObject) -> None:
    cache.clear()
    base = {"name": uuid4().hex, "slug": uuid4().hex, "role": "viewer", "username": uuid4().hex}
    body: Any = {name: base[name] for name in FIELDS[kind] if name in base}
    body |= data.draw(st.dictionaries(st.sampled_from(FIELDS[kind]), VALUES, max_size=4))
    body = data.draw(st.one_of(st.just(body), st.just(body), VALUES))
    response = client.post(f"/api/v1/{kind}/", body, format="json")
    assert response.status_code < 500, (body, response.content)
    assert response.status_code != 200
    if response.status_code >= 400:
        assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("kind", ["sites", "pods", "hosts", "pools"])
@QUIET
@given(data=st.data())
def test_no_change_makes_a_server_error(client: Any, kind: str, data: st.DataObject) -> None:
    cache.clear()
    site = Site.objects.create(name=uuid4().hex, slug=uuid4().hex)
    row: Any = {
        "sites": lambda: site,
        "pods": lambda: Pod.objects.create(site=site, name="p"),
        "hosts": lambda: Host.objects.create(name="h"),
        "pools": lambda: Pool.objects.create(name=uuid4().hex),
    }[kind]()
    body = data.draw(st.dictionaries(st.sampled_from(FIELDS[kind]), VALUES, max_size=4))
    response = client.patch(f"/api/v1/{kind}/{row.pk}/", body, format="json", headers={"If-Match": '"1"'})
    assert response.status_code < 500, (body, response.content)


PARAMETERS = ["name", "ordering", "page", "page_size", "pod", "life_cycle", "source", "seen_before", "serial", "x"]


@QUIET
@given(st.dictionaries(st.sampled_from(PARAMETERS), SCALARS.map(str).filter(lambda t: t.isprintable() or "\x00" in t)))
def test_no_query_makes_a_server_error(client: Any, query: dict[str, str]) -> None:
    cache.clear()
    assert client.get("/api/v1/hosts/", query).status_code < 500


@QUIET
@given(data=st.data())
def test_no_report_of_an_agent_makes_a_server_error(db: None, data: st.DataObject) -> None:
    cache.clear()
    joiner = Joiner(hostname=uuid4().hex).enroll()
    body = joiner.heartbeat(capabilities=dict(CAPABILITIES))
    part = data.draw(st.sampled_from([body, body["status"], body["status"]["tiers"][0], body["capabilities"]]))
    part |= data.draw(st.dictionaries(st.sampled_from(sorted(part)), VALUES, max_size=3))
    if data.draw(st.booleans()):
        body["inventory"] = {"source": "s", "observed_at_s": 1.0, "hostname": "h"}
        body["inventory"] |= data.draw(
            st.dictionaries(
                st.sampled_from(["serial", "machine_id_hash", "memory_bytes", "cpu_threads", "os", "block_devices"]),
                VALUES,
            )
        )
        drive = {"name": "d"} | data.draw(
            st.dictionaries(st.sampled_from(["serial", "model", "capacity_bytes", "temperature_c", "nsid"]), SCALARS)
        )
        if data.draw(st.booleans()):
            body["inventory"]["block_devices"] = [drive]
    response = joiner.post("heartbeat", body, joiner.access_token)
    assert response.status_code < 500, (body, response.content)


@pytest.mark.parametrize("path", ["enroll/challenge", "enroll", "rejoin/challenge", "rejoin"])
@QUIET
@given(data=st.data())
def test_no_knock_makes_a_server_error(db: None, path: str, data: st.DataObject) -> None:
    cache.clear()
    joiner = Joiner()
    body = joiner.request("kvj1_abcdefgh." + "x" * 43, "n" * 43) | {"agent_id": str(uuid4()), "join_seq": 1}
    kept = {
        "enroll/challenge": ["token_id", "public_key"],
        "enroll": [name for name in body if name not in ("agent_id", "join_seq")],
        "rejoin/challenge": ["agent_id"],
        "rejoin": ["agent_id", "nonce", "join_seq", "signature"],
    }[path]
    message = {name: body[name] for name in kept} | data.draw(
        st.dictionaries(st.sampled_from(kept), VALUES, max_size=2)
    )
    response = joiner.post(path, message)
    assert response.status_code < 500, (message, response.content)
