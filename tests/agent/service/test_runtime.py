"""Desired policies: strictly growing generations, validated, durable, applied live while clients are served."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.config import AgentConfig
from agent.protocol import ApplyState, Desired
from agent.resp.commands import execute
from agent.resp.server import RespServer
from agent.runtime import AgentRuntime
from agent.tiers import TieredStore
from kvcache.policy import PolicyDocument, ResolvedPolicy, TierLimits, default_policy, parse_policy
from tests.agent.harness import MIB, PASSWORD, Plane, Served, payload, plane
from tests.support.servers import wait_until

LIMITS = TierLimits(8 * MIB, 32 * MIB)


def document(dram: float | int, flash: float | int = 0.5, **dram_fields: Any) -> PolicyDocument:
    capacity = lambda value: {"bytes": value} if isinstance(value, int) else {"share": value}  # noqa: E731
    return parse_policy(
        {
            "version": "fabric/v1",
            "tiers": {"dram": {"capacity": capacity(dram), **dram_fields}, "flash": {"capacity": capacity(flash)}},
        }
    )


def desired(generation: int, wanted: PolicyDocument, **changes: Any) -> Desired:
    fields = {
        "aud": "agent", "generation": generation, "digest": wanted.digest(), "document": wanted.as_dict(),
        "nonce": "n" * 16, "iat_s": 0.0, "exp_s": 1e12,
    }  # fmt: skip
    return Desired(**(fields | changes))


class Setup:
    def __init__(self, below: Plane, directory: Path) -> None:
        self.below = below
        self.config = AgentConfig(
            state_dir=directory, resp_port=0, dram_limit_bytes=LIMITS.dram_bytes, flash_limit_bytes=LIMITS.flash_bytes
        )

    def runtime(self) -> AgentRuntime:
        """A runtime over the store, as a start of the agent makes it."""

        def take(policy: ResolvedPolicy) -> TieredStore:
            self.below.store.apply_policy(policy)
            return self.below.store

        return AgentRuntime(self.config, take)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    with plane(tmp_path, dram=LIMITS.dram_bytes, flash=LIMITS.flash_bytes, sweep_interval_s=0.02) as below:
        yield Setup(below, tmp_path)


def test_without_a_push_the_default_policy_runs(setup: Setup) -> None:
    runtime = setup.runtime()
    assert (runtime.observed_generation, runtime.applied_digest) == (0, None)
    assert runtime.policy == default_policy()
    assert setup.below.tier("dram").capacity_bytes == LIMITS.dram_bytes // 4
    assert runtime.ready() == (False, "starting")
    runtime.set_ready()
    assert runtime.ready() == (True, "ready")


def test_capabilities_say_what_the_settings_allow(setup: Setup) -> None:
    capabilities = setup.runtime().capabilities()
    assert capabilities.tiers == ["dram", "flash"]
    assert (capabilities.dram_limit_bytes, capabilities.flash_limit_bytes) == (8 * MIB, 32 * MIB)
    assert "lru" in capabilities.evictions
    assert capabilities.max_value_bytes == 64 * MIB


def test_generations_only_grow(setup: Setup) -> None:
    runtime = setup.runtime()
    first, second = document(0.5), document(0.25)
    reply = runtime.apply_desired(desired(3, first))
    assert (reply.state, reply.observed_generation, reply.applied_digest) == (ApplyState.APPLIED, 3, first.digest())
    again = runtime.apply_desired(desired(3, first))
    assert again.state is ApplyState.APPLIED
    stale = runtime.apply_desired(desired(2, second))
    assert (stale.state, stale.observed_generation, stale.applied_digest) == (ApplyState.STALE, 3, first.digest())
    clash = runtime.apply_desired(desired(3, second))
    assert clash.state is ApplyState.REFUSED
    assert clash.problems[0].field == "generation"
    assert runtime.apply_desired(desired(4, second)).state is ApplyState.APPLIED
    snapshot = runtime.snapshot()
    assert (snapshot.policy_generation, snapshot.policy_applied) == (4, 2)
    assert runtime.status("id").observed_generation == 4


def test_what_cannot_hold_is_refused_field_by_field_and_nothing_changes(setup: Setup) -> None:
    runtime = setup.runtime()
    good = document(0.5)
    runtime.apply_desired(desired(1, good))
    too_much = document(LIMITS.dram_bytes + 1, LIMITS.flash_bytes + 1)
    reply = runtime.apply_desired(desired(2, too_much))
    assert reply.state is ApplyState.REFUSED
    assert [problem.field for problem in reply.problems] == ["tiers.dram.capacity.bytes", "tiers.flash.capacity.bytes"]
    reply = runtime.apply_desired(desired(2, good, document={"version": "fabric/v1", "tiers": {"hbm": {}}}))
    assert reply.state is ApplyState.REFUSED
    assert reply.problems[0].field == "tiers.hbm"
    reply = runtime.apply_desired(desired(2, document(0.1), digest=good.digest()))
    assert reply.state is ApplyState.REFUSED
    assert reply.problems[0].field == "digest"
    assert (reply.observed_generation, runtime.policy) == (1, good)
    assert setup.below.tier("dram").capacity_bytes == LIMITS.dram_bytes // 2


def test_policy_survives_a_restart_and_a_damaged_file_is_set_aside(setup: Setup) -> None:
    runtime = setup.runtime()
    wanted = document(0.75, eviction="fifo")
    runtime.apply_desired(desired(9, wanted))
    path = setup.config.state_dir / "policy.json"
    assert path.stat().st_mode & 0o777 == 0o600
    again = setup.runtime()
    assert (again.observed_generation, again.applied_digest) == (9, wanted.digest())
    assert again.apply_desired(desired(8, document(0.1))).state is ApplyState.STALE
    record = json.loads(path.read_text())
    record["document"]["tiers"]["dram"]["capacity"]["share"] = 0.1
    for damage in (json.dumps(record), "{", "", '{"generation": 1}'):
        path.write_text(damage)
        broken = setup.runtime()
        assert (broken.observed_generation, broken.policy) == (0, default_policy())
        assert not path.exists()
        assert path.with_suffix(".bad").exists()


def test_policy_that_cannot_be_stored_is_not_applied(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = setup.runtime()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agent.runtime.write_private_file", full)
    reply = runtime.apply_desired(desired(1, document(0.5)))
    assert (reply.state, reply.observed_generation) == (ApplyState.REFUSED, 0)
    assert "No space left" in reply.problems[0].problem
    assert setup.below.tier("dram").capacity_bytes == LIMITS.dram_bytes // 4


@pytest.fixture
def loaded(setup: Setup) -> Iterator[tuple[AgentRuntime, Served]]:
    """A served agent with four clients that read and write verified blocks all the time."""
    runtime = setup.runtime()
    server = RespServer(setup.config, setup.below.store, PASSWORD, execute)
    server.start()
    service = Served(setup.below, server, server.port, setup.config)
    stop, errors, slowest = threading.Event(), [], [0.0]

    def work(seed: int) -> None:
        client = service.client()
        number = seed
        try:
            while not stop.is_set():
                number = (number * 7 + 13) % 200
                began = time.perf_counter()
                data = client.get(f"k{number}")
                if data is None:
                    client.set(f"k{number}", payload(number, 100_000))
                elif data != payload(number, 100_000):
                    errors.append(f"wrong bytes of {number}")
                slowest[0] = max(slowest[0], time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    yield runtime, service
    stop.set()
    for thread in threads:
        thread.join()
    for client in service.clients:
        client.close()
    server.stop(2)
    server.release()
    assert not errors
    assert slowest[0] < 2.0


def test_policy_changes_under_load_without_an_error_or_a_dropped_connection(
    loaded: tuple[AgentRuntime, Served],
) -> None:
    runtime, service = loaded
    below = service.plane
    shapes = [(1.0, 1.0), (0.1, 0.5), (0.5, 0.1), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.25, 0.5)]
    connections = service.plane.store.stats.connections_total
    for generation, (dram, flash) in enumerate(shapes, 1):
        assert runtime.apply_desired(desired(generation, document(dram, flash))).state is ApplyState.APPLIED
        for name, share, limit in (("dram", dram, LIMITS.dram_bytes), ("flash", flash, LIMITS.flash_bytes)):
            wait_until(
                lambda name=name, share=share, limit=limit: below.tier(name).stored_bytes <= share * limit,
                message=f"{name} within {share:.0%}",
            )
        time.sleep(0.1)
    assert service.plane.store.stats.connections_total <= max(connections, 4)
    assert not below.store.stats.connections_closed


def test_shrinking_gives_memory_back_to_the_system(setup: Setup) -> None:
    runtime = setup.runtime()
    runtime.apply_desired(desired(1, document(1.0, 0.0)))
    for number in range(70):
        setup.below.set(b"%d" % number, payload(number, 100_000))
    assert setup.below.tier("dram").stored_bytes == 7_000_000
    runtime.apply_desired(desired(2, document(MIB, 0.0)))
    wait_until(lambda: setup.below.tier("dram").stored_bytes <= MIB)
    assert setup.below.pool.alive_bytes <= MIB
    assert sum(setup.below.store.stats.evicted_blocks["dram", reason] for reason in ("shrink", "evict")) == 60
