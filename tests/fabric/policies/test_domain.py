"""What a document asks of an agent, against the agent's own judgement."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.protocol import Capabilities
from fabric.policies.domain import AgentProblem, capabilities_of, problems_for_capabilities
from kvcache.policy import PolicyError, TierLimits, parse_policy, resolve

MIB = 1 << 20


def capabilities(**changes: Any) -> Capabilities:
    values = {
        "engine": "flash",
        "tiers": ["dram", "flash"],
        "evictions": ["fifo", "lru"],
        "dram_limit_bytes": 16 * MIB,
        "flash_limit_bytes": 64 * MIB,
        "max_value_bytes": MIB,
    }
    return Capabilities.model_validate(values | changes)


def document(dram: dict[str, Any] | None = None, flash: dict[str, Any] | None = None) -> Any:
    return parse_policy({"version": "fabric/v1", "tiers": {"dram": dram or {}, "flash": flash or {}}})


def test_what_an_agent_can_do_has_no_problem() -> None:
    assert problems_for_capabilities(document(), capabilities()) == []
    full = document({"capacity": {"bytes": 16 * MIB}}, {"capacity": {"share": 1}, "eviction": "fifo"})
    assert problems_for_capabilities(full, capabilities()) == []


def test_more_bytes_than_the_limit_names_the_field_and_the_limit() -> None:
    (problem,) = problems_for_capabilities(document({"capacity": {"bytes": 16 * MIB + 1}}), capabilities())
    assert problem.field == "tiers.dram.capacity.bytes"
    assert str(16 * MIB) in problem.remedy


def test_bytes_in_a_tier_that_the_agent_lacks_are_a_problem_and_a_share_is_not() -> None:
    dram_only = capabilities(tiers=["dram"])
    (problem,) = problems_for_capabilities(document(flash={"capacity": {"bytes": 1}}), dram_only)
    assert problem.field == "tiers.flash.capacity.bytes"
    assert problems_for_capabilities(document(flash={"capacity": {"share": 0.5}}), dram_only) == []


def test_an_eviction_that_the_engine_lacks_is_a_problem_where_the_tier_is_used() -> None:
    lru_only = capabilities(evictions=["lru"])
    (problem,) = problems_for_capabilities(document(flash={"eviction": "fifo"}), lru_only)
    assert (problem.field, problem.remedy) == ("tiers.flash.eviction", "it can do lru")
    off = document(flash={"eviction": "fifo", "capacity": {"bytes": 0}})
    assert problems_for_capabilities(off, lru_only) == []


def test_capabilities_that_cannot_be_read_are_none() -> None:
    assert capabilities_of({}) is None
    assert capabilities_of({"engine": "x"}) is None
    assert capabilities_of(capabilities().model_dump()) == capabilities()


def test_problem_of_an_agent_names_agent_and_engine() -> None:
    text = str(AgentProblem("id", "dpu-1", "valkey", "tiers.dram.eviction", "it cannot evict by fifo", "use lru"))
    assert text == "agent dpu-1 (engine valkey): it cannot evict by fifo"


SIZES = st.one_of(
    st.builds(lambda share: {"share": share}, st.floats(0, 1)),
    st.builds(lambda size: {"bytes": size}, st.integers(0, 128 * MIB)),
)


@given(dram=SIZES, flash=SIZES, limits=st.tuples(st.integers(0, 64 * MIB), st.integers(0, 64 * MIB)))
def test_a_document_has_problems_exactly_where_the_agent_would_refuse_it(
    dram: dict[str, Any], flash: dict[str, Any], limits: tuple[int, int]
) -> None:
    """The agent's own judgement (`kvcache.policy.resolve` on its limits) is the oracle."""
    asked = document({"capacity": dram}, {"capacity": flash})
    found = problems_for_capabilities(asked, capabilities(dram_limit_bytes=limits[0], flash_limit_bytes=limits[1]))
    try:
        resolve(asked, TierLimits(*limits))
    except PolicyError:
        assert found
    else:
        assert not found
