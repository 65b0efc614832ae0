"""Many machines at one moment: one token makes one agent, one generation is given once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from fabric.agents.models import AccessToken, Agent, JoinToken, SigningKey
from fabric.agents.services import active_signing_key, set_desired
from fabric.core.actor import SYSTEM
from kvcache.policy import default_policy
from tests.fabric.agents.joining import Joiner, join_token

pytestmark = pytest.mark.usefixtures("file_database")
THREADS = 20


def together(calls: list[Callable[[], Any]]) -> list[Any]:
    """Run the calls at the same moment, each on a connection of its own."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait(20)
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.parametrize("uses", [1, 3])
def test_token_admits_exactly_as_many_as_it_says(uses: int) -> None:
    token = join_token(max_uses=uses)
    joiners = [Joiner(hostname=f"h{n}") for n in range(THREADS)]
    bodies = [joiner.request(token, joiner.challenge(token)) for joiner in joiners]
    answers = together([lambda j=j, b=b: j.post("enroll", b) for j, b in zip(joiners, bodies, strict=True)])
    codes = [answer.status_code for answer in answers]
    assert codes.count(200) == uses, codes
    assert {a.json()["type"] for a in answers if a.status_code != 200} == {"urn:kvfabric:problem:token-used"}
    assert Agent.objects.count() == AccessToken.objects.count() == JoinToken.objects.get().uses == uses


def test_one_machine_that_knocks_many_times_is_one_agent() -> None:
    token, joiner = join_token(), Joiner()
    bodies = [joiner.request(token, joiner.challenge(token)) for _ in range(THREADS)]
    answers = together([lambda b=b: joiner.post("enroll", b) for b in bodies])
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["agent_id"] for answer in answers}) == 1
    assert Agent.objects.count() == JoinToken.objects.get().uses == 1


def test_one_nonce_is_used_once() -> None:
    token, joiner = join_token(max_uses=50), Joiner()
    body = joiner.request(token, joiner.challenge(token))
    codes = [answer.status_code for answer in together([lambda: joiner.post("enroll", body)] * THREADS)]
    assert codes.count(200) == 1
    assert codes.count(403) == THREADS - 1


def test_machines_of_one_name_all_come_in() -> None:
    token = join_token(max_uses=THREADS)
    joiners = [Joiner(hostname="localhost") for _ in range(THREADS)]
    bodies = [joiner.request(token, joiner.challenge(token)) for joiner in joiners]
    answers = together([lambda j=j, b=b: j.post("enroll", b) for j, b in zip(joiners, bodies, strict=True)])
    assert {answer.status_code for answer in answers} == {200}
    assert len(set(Agent.objects.values_list("name", flat=True))) == THREADS


def test_machines_of_one_serial_number_are_one_active_agent_at_most() -> None:
    token = [join_token() for _ in range(8)]
    joiners = [Joiner(hostname=f"h{n}", serial="SN-1") for n in range(8)]
    bodies = [j.request(t, j.challenge(t)) for j, t in zip(joiners, token, strict=True)]
    together([lambda j=j, b=b: j.post("enroll", b) for j, b in zip(joiners, bodies, strict=True)])
    states = sorted(Agent.objects.values_list("state", flat=True))
    assert states.count("active") == 1
    assert states.count("denied") == 7


def test_rejoins_with_one_sequence_let_one_through_and_the_agent_keeps_one_token() -> None:
    joiner = Joiner().enroll()
    joiner.beat()
    bodies = [joiner.rejoin_request() for _ in range(12)]
    answers = together([lambda b=b: joiner.post("rejoin", b) for b in bodies])
    granted = [answer for answer in answers if answer.status_code == 200]
    # The first is granted; while its token is unused, one repeat with the older sequence counts as a lost answer.
    assert 1 <= len(granted) <= 2
    assert AccessToken.objects.count() == 1
    assert len({answer.json()["join_seq"] for answer in granted}) == len(granted)


def test_generations_of_parallel_writers_are_all_different() -> None:
    agents = [Joiner(hostname=f"h{n}").enroll().row.pk for n in range(3)]
    policy = default_policy()
    given = together(
        [
            lambda order=order: set_desired(
                actor=SYSTEM, agent_ids=order, document=policy.as_dict(), digest=policy.digest()
            )
            for order in [agents, agents[::-1]] * 8
        ]
    )
    for agent_id in agents:
        assert sorted(answer[agent_id] for answer in given) == list(range(1, 17))


def test_first_signing_key_is_made_once() -> None:
    SigningKey.objects.all().delete()
    kids = {pair.kid for pair in together([active_signing_key] * 12)}
    assert kids == {"k1"}
    assert SigningKey.objects.count() == 1
