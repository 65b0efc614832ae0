"""A list costs the same number of queries however long it is."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fabric.agents.models import Agent
from fabric.agents.services import create_join_token
from fabric.core.actor import SYSTEM, Role
from fabric.inventory.models import Dpu, Host, NetworkInterface, Pod, Site, Ssd, Switch
from fabric.pools.models import Pool
from tests.fabric.people import bearer_client, person

pytestmark = pytest.mark.django_db
LISTS = [
    "sites",
    "pods",
    "hosts",
    "dpus",
    "ssds",
    "switches",
    "interfaces",
    "pools",
    "agents",
    "join-tokens",
    "tokens",
    "users",
    "audit",
]


def grow(start: int, count: int) -> None:
    """Make `count` more of everything, each with parents of its own."""
    for n in range(start, start + count):
        site = Site.objects.create(name=f"s{n}", slug=f"s{n}")
        pod = Pod.objects.create(site=site, name="p")
        host = Host.objects.create(name=f"h{n}", pod=pod)
        dpu = Dpu.objects.create(name=f"d{n}", host=host)
        Ssd.objects.create(name=f"n{n}", host=host, dpu=dpu)
        Switch.objects.create(name=f"w{n}", pod=pod)
        NetworkInterface.objects.create(host=host, dpu=dpu, name="eth0", kind="physical")
        pool = Pool.objects.create(name=f"p{n}", pod=pod)
        Agent.objects.create(
            name=f"a{n}",
            hostname="h",
            agent_version="1",
            public_key=f"k{n}",
            manage_url="x",
            data_url="x",
            pool=pool,
            host=host,
            state="active",
        )
        create_join_token(actor=SYSTEM, name=f"t{n}", pool_id=pool.pk)
        bearer_client(person(Role.VIEWER))


def test_lists_of_30_cost_as_many_queries_as_lists_of_3() -> None:
    client: Any = bearer_client(person(Role.ADMIN))
    counts: dict[str, list[int]] = {name: [] for name in LISTS}
    made = 0
    for size in (3, 30):
        grow(made, size - made)
        made = size
        for name in LISTS:
            client.get(f"/api/v1/{name}/")  # the first use of a token in a minute writes
            with CaptureQueriesContext(
                connection,
            ) as queries:
                assert len(client.get(f"/api/v1/{name}/?page_size=500").json()["results"]) >= size
            counts[name].append(len(queries))
    assert {name: pair for name, pair in counts.items() if pair[0] != pair[1]} == {}
    assert max(pair[0] for pair in counts.values()) <= 5
