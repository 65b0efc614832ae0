"""The pulse: reports, obeys, renews, recovers, and never gets in the way of the data."""

import asyncio
import json
import time

import pytest
from aiohttp import web

from agent.manage import client as client_module
from agent.manage import heartbeat
from agent.manage.backoff import MAX_DELAY_S, Backoff, jittered_s
from tests.agent.manage.conftest import Enrolled, Runtimes, managed
from tests.agent.manage.control_plane import ControlPlane, eventually, policy, problem, serving


async def test_first_beat_is_full_and_the_next_are_short(enrolled: Enrolled, control_plane: ControlPlane) -> None:
    async with enrolled() as manage:
        await eventually(lambda: len(control_plane.beats) >= 4, "four heartbeats")
        first, *rest = control_plane.beats
        assert first.capabilities == manage.runtime.capabilities()
        assert first.inventory
        assert first.inventory.kernel
        assert all(beat.capabilities is None and beat.inventory is None for beat in rest)
        assert [beat.seq for beat in control_plane.beats] == list(range(1, len(control_plane.beats) + 1))
        assert {beat.join_seq for beat in control_plane.beats} == {1}
        assert abs(first.agent_time_s - time.time()) < 10
        assert {tier.tier for tier in first.status.tiers} == {"dram", "flash"}


async def test_full_state_is_sent_when_asked_for_but_not_in_a_loop(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled():
        control_plane.send_full_once = True
        await eventually(lambda: sum(beat.inventory is not None for beat in control_plane.beats) == 2, "a full beat")
        await asyncio.sleep(0.3)
        assert sum(beat.inventory is not None for beat in control_plane.beats) == 2


async def test_server_that_always_wants_the_full_state_gets_it_at_the_usual_pace(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled():
        before = len(control_plane.beats)
        for _ in range(50):
            control_plane.send_full_once = True
            await asyncio.sleep(0.01)
        assert len(control_plane.beats) - before < 14


async def test_full_state_is_sent_again_after_a_while(
    enrolled: Enrolled, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "FULL_STATE_INTERVAL_S", 0.25)
    async with enrolled():
        await eventually(lambda: sum(beat.inventory is not None for beat in control_plane.beats) >= 3, "full beats")
        assert any(beat.inventory is None for beat in control_plane.beats)


async def test_policy_in_the_answer_comes_into_force_and_is_reported_at_once(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    control_plane.heartbeat_interval_s = 0.5
    async with enrolled() as manage:
        control_plane.desired = control_plane.seal(5, policy(0.125))
        await eventually(lambda: manage.runtime.observed_generation == 5, "generation 5")
        applied_s = time.monotonic()
        await eventually(lambda: control_plane.beats[-1].status.observed_generation == 5, "the report")
        assert time.monotonic() - applied_s < 0.4
        assert control_plane.beats[-1].status.applied_digest == policy(0.125).digest()
        assert manage.runtime.snapshot().policy_applied == 1
        await asyncio.sleep(1.2)  # the same envelope with every answer
        assert manage.runtime.snapshot().policy_applied == 1
        assert (await manage.condition("policy_refused"))["status"] == "false"


async def test_forged_policy_in_the_answer_changes_nothing_and_is_shown(
    enrolled: Enrolled, control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    async with enrolled() as manage:
        control_plane.desired = ControlPlane().seal(9, aud=control_plane.member().agent_id)
        await eventually(lambda: "not to be believed" in caplog.text, "the warning")
        await asyncio.sleep(0.3)
        assert manage.runtime.observed_generation == 0
        condition = await manage.condition("policy_refused")
        assert (condition["status"], condition["reason"]) == ("true", "not-believed")
    assert caplog.text.count("not to be believed") == 1


async def test_policy_that_cannot_hold_is_shown_until_one_that_can(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        control_plane.desired = control_plane.seal(2, digest="sha256:" + "0" * 64)
        await eventually(
            lambda: any(
                item.type == "policy_refused" and item.status == "true" and "generation 2" in item.message
                for item in control_plane.beats[-1].status.conditions
            ),
            "the condition in a heartbeat",
        )
        assert manage.runtime.observed_generation == 0
        control_plane.desired = control_plane.seal(3, policy(0.2))
        await eventually(lambda: manage.runtime.observed_generation == 3, "generation 3")
        assert (await manage.condition("policy_refused"))["status"] == "false"


async def test_token_is_renewed_and_the_old_one_forgotten_once_the_new_one_worked(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        old = manage.identity
        assert old
        control_plane.member().tokens.add("kva1_new.secret")
        control_plane.renew = "kva1_new.secret"
        await eventually(lambda: control_plane.beat_tokens[-1] == "kva1_new.secret", "a beat with the new token")
        control_plane.member().tokens.discard(old.access_token)
        await eventually(lambda: (it := manage.identity) and it.previous_access_token is None, "the old one forgotten")
        assert (identity := manage.identity)
        assert identity.access_token == "kva1_new.secret"
    assert "/agent/v1/rejoin" not in control_plane.calls


async def test_renewed_token_that_does_not_work_leaves_the_old_one(
    enrolled: Enrolled, control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    async with enrolled() as manage:
        old = manage.identity
        assert old
        control_plane.renew = "kva1_bad.secret"  # never valid
        await eventually(lambda: "renewed access token does not work" in caplog.text, "the warning")
        beats = len(control_plane.beats)
        await eventually(lambda: len(control_plane.beats) > beats + 1, "more beats")
        assert (identity := manage.identity)
        assert (identity.access_token, identity.previous_access_token) == (old.access_token, None)
    assert "/agent/v1/rejoin" not in control_plane.calls
    assert "kva1" not in caplog.text


async def test_expired_token_is_replaced_by_rejoining_with_the_key(
    enrolled: Enrolled, control_plane: ControlPlane
) -> None:
    async with enrolled() as manage:
        pinned = manage.identity
        assert pinned
        control_plane.member().tokens.clear()
        await eventually(lambda: control_plane.beats[-1].join_seq == 2, "a beat under join sequence 2")
        identity = manage.identity
        assert identity
        assert (identity.join_seq, identity.agent_id) == (2, pinned.agent_id)
        assert identity.control_plane_keys == pinned.control_plane_keys
        control_plane.member().tokens.clear()
        await asyncio.sleep(0.3)
        assert control_plane.calls.count("/agent/v1/rejoin") == 1  # not two in a row: that is throttled
        assert (await manage.condition("identity_refused"))["status"] == "true"
        assert (await manage.get("/readyz")) == (200, "ok\n")


async def test_copied_state_directory_is_noticed_by_the_join_sequence(
    enrolled: Enrolled, control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    async with enrolled():
        control_plane.member().join_seq = 7  # another holder of the key has rejoined meanwhile
        control_plane.member().tokens.clear()
        await eventually(lambda: "join-seq-stale" in caplog.text, "the refusal")
        assert control_plane.member().state == "locked"


@pytest.mark.parametrize("state", ["pending", "locked", "revoked", "denied"])
async def test_agent_that_is_not_active_keeps_serving_and_says_why(
    enrolled: Enrolled, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(heartbeat, "MAX_DELAY_S", 0.2)
    async with enrolled() as manage:
        control_plane.member().state = state

        async def shown() -> bool:
            return (await manage.condition("identity_refused"))["reason"] == f"agent-{state}"

        for _ in range(100):
            if await shown():
                break
            await asyncio.sleep(0.02)
        assert await shown()
        assert (await manage.get("/readyz")) == (200, "ok\n")
        control_plane.member().state = "active"
        beats = len(control_plane.beats)
        await eventually(lambda: len(control_plane.beats) > beats, "a heartbeat after the operator's decision")
        assert (await manage.condition("identity_refused"))["status"] == "false"


async def test_refused_identity_with_a_new_join_token_enrols_anew(
    enrolled: Enrolled, control_plane: ControlPlane, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "MAX_DELAY_S", 0.2)
    async with enrolled() as manage:
        old = control_plane.member().agent_id
        control_plane.members.clear()  # the control plane lost its memory: 401, then "agent-unknown"
        (tmp_path / "join-token").write_text(control_plane.new_token())
        await eventually(lambda: control_plane.members and control_plane.beats[-1].status.agent_id != old, "a new id")
        assert (identity := manage.identity)
        assert identity.agent_id == control_plane.member().agent_id


async def test_agent_that_waits_for_approval_does_not_enrol_again_with_its_token(
    make_runtime: Runtimes, control_plane: ControlPlane, control_plane_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "MAX_DELAY_S", 0.05)
    token = control_plane.new_token("many-uses")
    settings = {"control_plane_url": f"http://127.0.0.1:{control_plane_port}", "join_token": token}
    for _ in range(2):  # a restart forgets which token was used, not who the agent is
        async with managed(make_runtime(**settings)):
            await eventually(lambda: control_plane.members, "the enrolment")
            control_plane.member().state = "pending"
            control_plane.calls.clear()
            await eventually(lambda: len(control_plane.calls) > 5, "heartbeats")
            assert set(control_plane.calls) == {"/agent/v1/heartbeat"}


async def test_rejoin_answer_with_foreign_keys_is_refused(
    enrolled: Enrolled, control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    async with enrolled() as manage:
        before = manage.identity
        other = ControlPlane()
        control_plane.key = other.key  # the same address, the same kid, another signing key
        control_plane.member().tokens.clear()
        await eventually(lambda: "none of the keys pinned at enrolment" in caplog.text, "the refusal")
        assert manage.identity == before


async def test_control_plane_restart_is_survived(
    enrolled: Enrolled, control_plane: ControlPlane, control_plane_port: int
) -> None:
    async def down(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="bad gateway")

    async with enrolled() as manage:
        control_plane.refuse["*"] = down
        await eventually(lambda: manage.runtime and len(control_plane.calls) > 3, "attempts")
        await asyncio.sleep(0.3)
        condition = await manage.condition("control_plane_unreachable")
        assert (condition["status"], condition["reason"]) == ("true", "http-502")
        assert (await manage.get("/readyz")) == (200, "ok\n")
        del control_plane.refuse["*"]
        beats = len(control_plane.beats)
        await eventually(lambda: len(control_plane.beats) > beats, "a heartbeat after the restart")
        assert (await manage.condition("control_plane_unreachable"))["status"] == "false"
        seqs = [beat.seq for beat in control_plane.beats]
        assert seqs == sorted(set(seqs))
        assert seqs[beats] > seqs[beats - 1] + 1  # the gap tells that beats were lost


async def test_control_plane_whose_socket_is_gone_is_found_again(
    enrolled: Enrolled, control_plane: ControlPlane, tmp_path, make_runtime
) -> None:
    async with serving(control_plane) as port:
        runtime = make_runtime(control_plane_url=f"http://127.0.0.1:{port}", join_token=control_plane.new_token())
        manage_context = managed(runtime)
        manage = await manage_context.__aenter__()
        await eventually(lambda: control_plane.beats, "a heartbeat")
    try:
        await asyncio.sleep(0.4)
        assert (await manage.condition("control_plane_unreachable"))["reason"] == "connect"
        beats = len(control_plane.beats)
        async with serving(control_plane, port):
            await eventually(lambda: len(control_plane.beats) > beats, "a heartbeat")
    finally:
        await manage_context.__aexit__(None, None, None)


async def test_hanging_control_plane_times_out_and_the_door_stays_quick(
    enrolled: Enrolled, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await hanging.wait()
        return web.Response(status=503)

    original = client_module.ControlPlaneClient.__init__
    monkeypatch.setattr(
        client_module.ControlPlaneClient,
        "__init__",
        lambda self, url, ca_file=None: original(self, url, ca_file, total_timeout_s=0.4),
    )
    async with enrolled() as manage:
        control_plane.refuse["*"] = hang
        slowest_s = 0.0
        for _ in range(40):
            started_s = time.monotonic()
            assert (await manage.get("/livez")) == (200, "ok\n")
            slowest_s = max(slowest_s, time.monotonic() - started_s)
            await asyncio.sleep(0.02)
        assert slowest_s < 0.3
        condition = await manage.condition("control_plane_unreachable")
        assert (condition["status"], condition["reason"]) == ("true", "timeout")
        hanging.set()
        del control_plane.refuse["*"]
        beats = len(control_plane.beats)
        await eventually(lambda: len(control_plane.beats) > beats, "a heartbeat")


async def test_control_plane_that_dribbles_is_cut_off(
    enrolled: Enrolled, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dribble(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(200):
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    original = client_module.ControlPlaneClient.__init__
    monkeypatch.setattr(
        client_module.ControlPlaneClient,
        "__init__",
        lambda self, url, ca_file=None: original(self, url, ca_file, total_timeout_s=0.3),
    )
    async with enrolled() as manage:
        control_plane.refuse["*"] = dribble
        await asyncio.sleep(1.0)
        assert (await manage.condition("control_plane_unreachable"))["reason"] == "timeout"


@pytest.mark.parametrize("ahead_s", [86_400.0, -86_400.0])
async def test_clock_a_day_off_is_a_condition_and_no_reason_to_refuse(
    enrolled: Enrolled, control_plane: ControlPlane, ahead_s: float
) -> None:
    control_plane.clock_ahead_s = ahead_s
    async with enrolled() as manage:
        condition = await manage.condition("clock_skew")
        assert condition["status"] == "true"
        assert f"{ahead_s:+.0f}"[:6] in condition["message"]
        now_s = time.time() + ahead_s
        envelope = control_plane.seal(1, iat_s=now_s, exp_s=now_s + 60)  # in the control plane's time
        code, answer = await manage.put(envelope.model_dump_json())
        assert (code, answer["observed_generation"]) == (200, 1)
        assert (await manage.get("/metrics", control_plane.grant(iat_s=now_s, exp_s=now_s + 60)))[0] == 200
        control_plane.clock_ahead_s = 0.0
        beats = len(control_plane.beats)
        await eventually(lambda: len(control_plane.beats) > beats + 1, "more beats")
        assert (await manage.condition("clock_skew"))["status"] == "false"


async def test_condition_keeps_the_moment_since_when_it_holds(enrolled: Enrolled, control_plane: ControlPlane) -> None:
    async def down(_: web.Request) -> web.StreamResponse:
        return problem(503, "busy")

    async with enrolled() as manage:
        control_plane.refuse["*"] = down
        await asyncio.sleep(0.3)
        first = await manage.condition("control_plane_unreachable")
        await asyncio.sleep(0.6)
        again = await manage.condition("control_plane_unreachable")
        assert first["status"] == again["status"] == "true"
        assert first["since_s"] == again["since_s"]


async def test_failure_of_the_control_loop_is_logged_and_it_starts_again(
    enrolled: Enrolled, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agent.manage.run.RESTART_DELAY_S", 0.05)
    async with enrolled() as manage:

        def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(manage.runtime, "status", broken)
            await eventually(lambda: "the control loop failed" in caplog.text, "the log line")
            assert (await manage.get("/livez")) == (200, "ok\n")
        beats = len(control_plane.beats)
        await eventually(lambda: len(control_plane.beats) > beats, "a heartbeat")


def test_backoff_grows_to_its_bound_and_honours_retry_after() -> None:
    backoff = Backoff()
    delays = [backoff.next_s() for _ in range(40)]
    assert 0.25 <= delays[0] <= 0.5
    assert all(0 < delay <= MAX_DELAY_S for delay in delays)
    assert min(delays[10:]) >= MAX_DELAY_S / 2
    assert len(set(delays[10:])) > 10  # jitter
    assert backoff.next_s(at_least_s=3600) == MAX_DELAY_S
    backoff.reset()
    assert backoff.next_s() <= 0.5
    assert backoff.next_s(at_least_s=5.0) == 5.0


def test_interval_is_jittered_downwards() -> None:
    found = [jittered_s(2.0) for _ in range(200)]
    assert 1.8 <= min(found) < 1.85
    assert 1.95 < max(found) <= 2.0


async def test_status_is_the_message_of_the_protocol(enrolled: Enrolled) -> None:
    async with enrolled() as manage:
        status = await manage.status()
        assert status["boot_id"] == manage.runtime.boot_id
        kinds = {item["type"] for item in status["conditions"]}
        assert {"clock_skew", "control_plane_unreachable", "identity_refused", "policy_refused"} <= kinds
        assert json.dumps(status)
