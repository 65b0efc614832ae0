"""The OpenAPI document: without warnings for these apps, and true about refusals. (`make lint` validates it.)"""

from typing import Any

import pytest
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator

from tests.fabric.core.routes import routes

MINE = ("fabric.accounts.", "fabric.audit.", "fabric.inventory.", "fabric.pools.", "fabric.agents.")


@pytest.fixture(scope="module")
def document() -> tuple[dict[str, Any], list[str]]:
    """Return the schema and the warnings of its making."""
    with GENERATOR_STATS.silence():
        GENERATOR_STATS.reset()
        schema = SchemaGenerator().get_schema(request=None, public=True)
        stats = [*GENERATOR_STATS._warn_cache, *GENERATOR_STATS._error_cache]
    return schema, [str(line) for line in stats]


def operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (method, path, operation) of the API."""
    return [(method, path, body) for path, item in schema["paths"].items() for method, body in item.items()]


def test_these_apps_cause_no_warning(document: tuple[dict[str, Any], list[str]]) -> None:
    assert [line for line in document[1] if any(name.rstrip(".").replace(".", "/") in line for name in MINE)] == []


def test_every_operation_of_these_apps_is_described(document: tuple[dict[str, Any], list[str]]) -> None:
    described = {(method, path.replace("{id}", "{pk}")) for method, path, _ in operations(document[0])}
    for route in routes():
        if route.module.startswith(MINE) and route.template.startswith(("/api/v1/", "/agent/v1/")):
            path = route.template.replace("<uuid:pk>", "{pk}")
            methods = route.methods if route.template.startswith("/api/") else ["post"]
            assert {(method, path) for method in methods} <= described, route.template


def test_every_operation_says_that_it_answers_problems_and_what_it_is_for(
    document: tuple[dict[str, Any], list[str]],
) -> None:
    for method, path, operation in operations(document[0]):
        if path.startswith(("/api/v1/sites", "/api/v1/agents", "/api/v1/pools", "/api/v1/tokens", "/agent/v1/")):
            problem = operation["responses"]["4XX"]["content"]["application/problem+json"]["schema"]["$ref"]
            assert problem.endswith("/Problem"), (method, path)
            assert operation.get("summary"), (method, path)


def test_changes_of_versioned_objects_require_if_match(document: tuple[dict[str, Any], list[str]]) -> None:
    for kind in ("sites", "pods", "hosts", "dpus", "ssds", "switches", "pools", "agents"):
        item = document[0]["paths"][f"/api/v1/{kind}/{{id}}/"]
        for method in ("patch", "delete"):
            parameters = {p["name"]: p for p in item[method]["parameters"]}
            assert parameters["If-Match"]["required"], (kind, method)
        assert "ETag" in item["get"]["responses"]["200"]["headers"], kind


def test_agents_doors_use_the_messages_of_the_protocol(document: tuple[dict[str, Any], list[str]]) -> None:
    schema, _ = document
    heartbeat = schema["paths"]["/agent/v1/heartbeat"]["post"]
    assert heartbeat["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/HeartbeatRequest")
    assert heartbeat["security"] == [{"agentToken": []}]
    assert "security" not in schema["paths"]["/agent/v1/enroll"]["post"] or {} in schema["paths"]["/agent/v1/enroll"][
        "post"
    ].get("security", [{}])
