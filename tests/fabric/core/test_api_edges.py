"""What every REST door does with bad input: a problem body that says what and where, and nothing stored."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from fabric.audit.models import AuditEntry
from fabric.core.actor import Role
from fabric.inventory.models import Site, Ssd
from tests.fabric.people import Door, person

pytestmark = pytest.mark.django_db
SITES = "/api/v1/sites/"
GOOD = {"name": "Frankfurt", "slug": "frankfurt"}


def raw(api: APIClient, body: bytes | str, content_type: str = "application/json", path: str = SITES) -> Any:
    """Post a body as it stands."""
    return api.generic("POST", path, body if isinstance(body, bytes) else body.encode(), content_type=content_type)


def assert_problem(response: Any, status: int, kind: str) -> dict[str, Any]:
    """Check the form of a problem body; return it."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "no-store"
    body: dict[str, Any] = json.loads(response.content)
    assert body["status"] == status
    assert body["type"] == f"urn:kvfabric:problem:{kind}"
    assert body["title"]
    assert body["detail"]
    return body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b"\xff\xfe{}",
        b'{"name": NaN, "slug": "x"}',
        b'{"name": Infinity, "slug": "x"}',
        b'{"name": "a", "name": "b", "slug": "x"}',
        b'{"name": "a", "slug": "x"} trailing',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"name": ' + b"9" * 5000 + b"}",
        b'{"name": "\\ud800", "slug": "x"}',
        b"[]",
        b"null",
        b'"text"',
        b"3",
        b'[{"name": "a", "slug": "x"}]',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_body_that_is_not_a_usable_document_is_400(api: APIClient, body: bytes) -> None:
    assert_problem(raw(api, body), 400, "bad-request")
    assert not Site.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": 3}, "name"),
        ({"name": True}, "name"),
        ({"name": ["a"]}, "name"),
        ({"name": {"a": 1}}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"nmae": "typo"}, "nmae"),
        ({"id": "11111111-1111-4111-8111-111111111111"}, "id"),
        ({"version": 7}, "version"),
        ({"created_at": "2020-01-01"}, "created_at"),
        ({"name__icontains": "x"}, "name__icontains"),
        ({"_connector": "OR"}, "_connector"),
    ],
)
def test_field_at_fault_is_named(api: APIClient, changes: dict[str, Any], field: str) -> None:
    body = assert_problem(api.post(SITES, GOOD | changes, format="json"), 400, "bad-request")
    assert [p["field"] for p in body["problems"]] == [field]
    assert not Site.objects.exists()


@pytest.mark.parametrize("name", ["   ", "two\nlines", "tab\there", "bell\x07"])
def test_name_that_is_no_line_of_text_is_refused(api: APIClient, name: str) -> None:
    response = api.post(SITES, GOOD | {"name": name}, format="json")
    assert response.status_code in (400, 422)
    assert response.json()["problems"][0]["field"] == "name"
    assert not Site.objects.exists()


@pytest.mark.parametrize(
    "value", [1.5, "5", True, -1, 0, 10**18 * 10, int("9" * 400), 1e300, [], {}], ids=lambda v: str(v)[:12]
)
def test_number_that_no_column_holds_is_400(api: APIClient, value: Any) -> None:
    body = {"name": "nvme0n1", "capacity_bytes": value}
    answer = assert_problem(api.post("/api/v1/ssds/", body, format="json"), 400, "bad-request")
    assert answer["problems"][0]["field"] == "capacity_bytes"
    assert not Ssd.objects.exists()


@pytest.mark.parametrize("text", ["1e999", "-1e999", "true", '"1"', "1001", "-0.5"])
def test_float_that_is_no_number_of_this_kind_is_400(api: APIClient, text: str) -> None:
    assert_problem(raw(api, f'{{"name": "d", "endurance_dwpd": {text}}}', path="/api/v1/ssds/"), 400, "bad-request")
    assert not Ssd.objects.exists()


def test_body_above_the_limit_is_413(api: APIClient) -> None:
    body = json.dumps(GOOD | {"description": "x" * (1 << 20)})
    assert_problem(raw(api, body), 413, "too-large")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/xml"]
)
def test_anything_but_json_is_415(api: APIClient, content_type: str) -> None:
    assert_problem(raw(api, json.dumps(GOOD), content_type), 415, "unsupported-media-type")
    assert not Site.objects.exists()


def test_method_that_the_door_does_not_have_is_405_and_names_those_it_has(api: APIClient) -> None:
    response = api.delete("/api/v1/audit/")
    assert_problem(response, 405, "method-not-allowed")
    assert "GET" in response["Allow"]


def test_put_is_not_offered_only_patch(api: APIClient) -> None:
    site = Site.objects.create(**GOOD)
    assert_problem(api.put(f"{SITES}{site.pk}/", GOOD, format="json"), 405, "method-not-allowed")


@pytest.mark.parametrize(
    "query",
    ["nmae=x", "name__icontains=x", "ordering=password", "ordering=-pods__hosts__serial", "pod_set=1"],
)
def test_unknown_parameter_or_order_is_400(api: APIClient, query: str) -> None:
    assert_problem(api.get(f"{SITES}?{query}"), 400, "bad-request")


@pytest.mark.parametrize("query", ["page=0", "page=x", "page=99", "page=-1", "page=" + "9" * 400])
def test_page_that_does_not_exist_is_404(api: APIClient, query: str) -> None:
    assert_problem(api.get(f"{SITES}?{query}"), 404, "not-found")


def test_page_size_is_capped_at_500_and_nonsense_means_the_default(api: APIClient) -> None:
    Site.objects.bulk_create(Site(name=f"s{i}", slug=f"s{i}") for i in range(60))
    assert len(api.get(f"{SITES}?page_size=1000").json()["results"]) == 60
    assert len(api.get(f"{SITES}?page_size=0").json()["results"]) == 50
    body = api.get(f"{SITES}?page_size=7&page=2").json()
    assert (body["count"], len(body["results"])) == (60, 7)


@pytest.mark.parametrize("pk", ["x", "1", "00000000-0000-0000-0000-00000000000", "%00", "../sites"])
def test_id_that_is_none_is_404(api: APIClient, pk: str) -> None:
    assert api.get(f"{SITES}{pk}/").status_code == 404


def test_unknown_id_is_a_404_problem(api: APIClient) -> None:
    assert_problem(api.get(f"{SITES}11111111-1111-4111-8111-111111111111/"), 404, "not-found")


def test_stranger_is_401_and_told_how_to_come_in() -> None:
    response = Door().get(SITES)
    assert_problem(response, 401, "not-authenticated")
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_session_without_csrf_token_cannot_write(signed_in: Any) -> None:
    client = signed_in(person(Role.ADMIN))
    assert client.get(SITES).status_code == 200
    assert_problem(client.post(SITES, GOOD, format="json"), 403, "not-allowed")
    assert not Site.objects.exists()


def test_foreign_form_cannot_post_json_as_text(signed_in: Any) -> None:
    client = signed_in(person(Role.ADMIN))
    response = client.generic("POST", SITES, json.dumps(GOOD), content_type="text/plain")
    assert response.status_code in (403, 415)
    assert not Site.objects.exists()


def test_rate_above_the_limit_is_429_with_the_seconds_to_wait(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rest_framework.throttling.UserRateThrottle.rate", "2/min", raising=False)
    assert [api.get(SITES).status_code for _ in range(3)] == [200, 200, 429]
    response = api.get(SITES)
    assert_problem(response, 429, "too-many-requests")
    assert 0 < int(response["Retry-After"]) <= 60


def test_every_answer_carries_the_request_id_that_the_audit_row_has(api: APIClient) -> None:
    response = api.post(SITES, GOOD, format="json")
    assert response["X-Request-Id"] == AuditEntry.objects.get(verb="create", object_type="inventory.site").request_id
