"""Hostile and clumsy clients: limits in time, in memory and in numbers, while others are served."""

import contextlib
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from tests.agent.harness import KIB, MIB, Raw, Served, command, payload, rss_bytes, served
from tests.agent.resp.test_parser import WRONG
from tests.support.servers import wait_until

AFTER_LIMITS = [stream for stream in WRONG if len(stream) < 1000]


@pytest.mark.parametrize("stream", AFTER_LIMITS, ids=lambda stream: repr(stream[:24]))
def test_what_is_no_resp_gets_an_error_and_an_end(service: Served, stream: bytes) -> None:
    """The default limits are wider than the parser tests', so some of these are only incomplete here: never served."""
    with service.raw(timeout_s=0.3) as raw:
        raw.send(stream)
        try:
            answer = raw.line()
        except TimeoutError:
            assert stream in (b"*101\r\n", b"*1\r\n$1048577\r\n"), "only what is allowed here may wait for more"
            return
        assert answer.startswith(b"-ERR Protocol error: ")
        assert raw.closed()
    with service.raw() as raw:
        assert raw.call(b"PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    "stream",
    [
        b"*9\r\n", b"*1\r\n$1025\r\n", b"*2\r\n$4\r\nAUTH\r\n$2000\r\n",
        b"*8\r\n" + b"$1000\r\n" + b"x" * 1000 + b"\r\n" + b"$1000\r\n" + b"x" * 1000 + b"\r\n"
        + 3 * (b"$1000\r\n" + b"x" * 1000 + b"\r\n"),
    ],
)  # fmt: skip
def test_limits_before_authentication_are_narrow(service: Served, stream: bytes) -> None:
    with service.raw(authenticated=False) as raw:
        raw.send(stream)
        assert raw.line().startswith(b"-ERR Protocol error")
        assert raw.closed()


def test_replies_to_strangers_do_not_pile_up(service: Served) -> None:
    """A client that floods without a password and reads nothing: the agent stops reading, memory stays."""
    before = rss_bytes()
    with service.raw(authenticated=False, timeout_s=0.5) as raw:
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        flood = command(b"GET", b"k") * 2000
        with contextlib.suppress(TimeoutError, OSError):
            for _ in range(400):
                raw.sock.sendall(flood)
        assert rss_bytes() - before < 40 * MIB
        with service.raw() as other:
            assert other.call(b"PING") == b"+PONG\r\n"


def test_time_to_authenticate_is_short_and_reset_does_not_renew_it(tmp_path: Path) -> None:
    with served(tmp_path, settings={"auth_timeout_s": 0.4}) as service:
        with service.raw(authenticated=False) as silent, service.raw(authenticated=False) as busy:
            began = time.monotonic()
            while time.monotonic() - began < 3:
                busy.send(command(b"RESET"))
                try:
                    if not busy.line():
                        break
                except ConnectionResetError:
                    break
                time.sleep(0.05)
            assert time.monotonic() - began < 2.5
            assert silent.closed()
        assert service.plane.store.stats.connections_closed["auth"] == 2


def test_command_that_dribbles_is_cut_off(tmp_path: Path) -> None:
    with served(tmp_path, settings={"command_timeout_s": 0.4}) as service, service.raw() as slow, service.raw() as idle:
        began = time.monotonic()
        slow.sock.settimeout(0.05)
        stream = command(b"SET", b"k", b"x" * 30_000)
        cut_off = False
        for at in range(len(stream)):
            try:
                slow.sock.sendall(stream[at : at + 1])
                cut_off = not slow.sock.recv(1)
            except TimeoutError:
                continue
            except OSError:
                cut_off = True
            if cut_off:
                break
        assert cut_off
        assert time.monotonic() - began < 5
        assert idle.call(b"PING") == b"+PONG\r\n", "an idle connection is no slow one"
        assert service.plane.store.stats.connections_closed["timeout"] == 1
        wait_until(lambda: service.plane.pool.alive_bytes == 0, message="its memory came back")


def test_idle_connection_is_closed_in_time(tmp_path: Path) -> None:
    with served(tmp_path, settings={"idle_timeout_s": 0.4}) as service, service.raw() as raw:
        assert raw.closed()


def test_client_that_reads_nothing_is_cut_off_and_others_go_on(tmp_path: Path) -> None:
    settings = {"write_stall_timeout_s": 0.6, "output_pause_bytes": 256 * KIB}
    with served(tmp_path, settings=settings, dram=16 * MIB, flash=8 * MIB) as service:
        client = service.client()
        client.set("big", payload("big", 4 * MIB))
        with service.raw() as raw:
            raw.send(command(b"GET", b"big") * 50)
            time.sleep(0.3)
            connection = next(one for one in service.server.connections.values() if one.output.queued_bytes)
            assert connection.output.queued_bytes < 5 * MIB, "one command past the pause, no more"
            assert client.get("big") == payload("big", 4 * MIB)
            wait_until(lambda: service.plane.store.stats.connections_closed["stalled"] == 1, timeout_s=5)
            del connection
        client.delete("big")
        wait_until(lambda: service.plane.pool.alive_bytes == 0, message="the value came back")


def test_slow_reader_gets_every_byte(tmp_path: Path) -> None:
    settings = {"output_pause_bytes": 64 * KIB}
    with served(tmp_path, settings=settings, dram=4 * MIB, flash=32 * MIB) as service:
        client = service.client()
        blocks = {b"%d" % n: payload(n, 300_000) for n in range(40)}
        for key, data in blocks.items():
            client.set(key, data)
        with service.raw() as raw:
            raw.send(command(b"MGET", *blocks) + command(b"GET", b"0") + command(b"PING"))
            time.sleep(0.3)
            assert all(one.output.queued_bytes < MIB for one in service.server.connections.values())
            assert raw.line() == b"*40\r\n"
            for data in [*blocks.values(), blocks[b"0"]]:
                assert raw.line() == b"$300000\r\n"
                assert raw.exactly(300_002) == data + b"\r\n"
            assert raw.line() == b"+PONG\r\n"


def test_pause_that_ends_while_sending_loses_no_command(tmp_path: Path) -> None:
    """More commands than may be answered at once arrive in one packet; all replies fit the socket immediately."""
    with served(tmp_path, settings={"output_pause_bytes": 64 * KIB}, dram=4 * MIB, flash=32 * MIB) as service:
        client = service.client()
        blocks = {b"%d" % n: payload(n, 70_000) for n in range(80)}
        for key, data in blocks.items():
            client.set(key, data)
        for order in (list(blocks), [b"79", *list(blocks)[:-1]]):
            with service.raw(timeout_s=10) as raw:
                raw.send(b"".join(command(b"GET", key) for key in order))
                for key in order:
                    assert raw.line() == b"$70000\r\n"
                    assert raw.exactly(70_002) == blocks[key] + b"\r\n"
                raw.send(command(b"MGET", *order))
                raw.line()
                for key in order:
                    assert raw.line() == b"$70000\r\n"
                    assert raw.exactly(70_002) == blocks[key] + b"\r\n"


def test_values_that_arrive_at_once_stay_within_the_budget(tmp_path: Path) -> None:
    """Twenty clients begin 1 MiB values with room for a few: all are stored in the end, none is cut off."""
    settings = {"inflight_limit_bytes": 4 * MIB, "max_value_bytes": MIB, "max_command_bytes": 2 * MIB}
    with served(tmp_path, settings=settings, dram=64 * MIB, flash=8 * MIB) as service:
        service.plane.pool.limit_bytes = 4 * MIB
        high = 0

        def store(number: int) -> None:
            with service.raw(timeout_s=30) as raw:
                stream = command(b"SET", b"k%d" % number, payload(number, MIB))
                raw.send(stream[: 300 * KIB])
                time.sleep(0.2)
                raw.send(stream[300 * KIB :])
                assert raw.line() == b"+OK\r\n"
                assert raw.call(b"DEL", b"k%d" % number) == b":1\r\n"
                done.append(number)

        done: list[int] = []
        threads = [threading.Thread(target=store, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            high = max(high, service.plane.pool.alive_bytes)
            time.sleep(0.01)
        assert sorted(done) == list(range(20))
        assert high <= 6 * MIB


def test_half_sent_requests_that_hold_all_memory_cannot_block_each_other(tmp_path: Path) -> None:
    """Eight MSETs of four values each, with memory for two of them: one at a time may go past the limit."""
    settings = {"inflight_limit_bytes": 4 * MIB, "max_value_bytes": MIB, "max_command_bytes": 8 * MIB}
    with served(tmp_path, settings=settings, dram=64 * MIB, flash=8 * MIB) as service:
        service.plane.pool.limit_bytes = 4 * MIB
        done: list[int] = []

        def store(number: int) -> None:
            keys = [b"%d-%d" % (number, part) for part in range(4)]
            stream = command(b"MSET", *[item for key in keys for item in (key, payload(key, 600 * KIB))])
            with service.raw(timeout_s=30) as raw:
                raw.send(stream[: 700 * KIB])
                time.sleep(0.3)
                raw.send(stream[700 * KIB :])
                assert raw.line() == b"+OK\r\n"
                assert raw.call(b"DEL", *keys) == b":4\r\n"
                done.append(number)

        threads = [threading.Thread(target=store, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(done) == list(range(8))


def test_writes_faster_than_flash_wait_instead_of_filling_memory(tmp_path: Path) -> None:
    settings = {"inflight_limit_bytes": 4 * MIB, "max_value_bytes": MIB}
    with served(tmp_path, settings=settings, dram=MIB, flash=64 * MIB) as service:
        engine = service.plane.engine
        original = engine.write

        def slow(*arguments: object) -> int:
            time.sleep(0.004)
            return original(*arguments)  # type: ignore[arg-type]

        engine.write = slow  # type: ignore[method-assign]
        high = 0
        threads = []

        def store(number: int) -> None:
            client = service.client()
            for turn in range(60):
                client.set(f"{number}-{turn}", payload((number, turn), 15_000 if number % 2 else 150_000))

        for number in range(4):
            threads.append(threading.Thread(target=store, args=(number,)))
            threads[-1].start()
        while any(thread.is_alive() for thread in threads):
            high = max(high, service.plane.pool.alive_bytes)
            time.sleep(0.005)
        assert high <= 6 * MIB
        assert service.client().get("2-59") == payload((2, 59), 150_000)


def test_clients_that_vanish_in_any_state_leave_nothing_behind(service: Served) -> None:
    client = service.client()
    for number in range(40):
        client.set(f"k{number}", payload(number, 300_000))
    whole = command(b"SET", b"x", payload("x", 200_000))
    streams = [
        b"",
        b"*",
        b"*3\r\n$3\r\nSE",
        whole[:100],
        whole[:150_000],
        whole[:-1],
        command(b"MGET", *[b"k%d" % n for n in range(40)]),
    ]
    for stream in streams * 3:
        raw = service.raw()
        raw.send(stream)
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
    wait_until(lambda: len(service.server.connections) == len(service.clients), message="all are gone")
    service.plane.settle()
    wait_until(
        lambda: service.plane.pool.alive_bytes == service.plane.tier("dram").stored_bytes, message="exact memory"
    )
    assert client.exists("x") == 0
    assert client.ping()


def test_commands_one_byte_at_a_time_and_all_at_once(service: Served) -> None:
    stream = command(b"SET", b"k", b"v" * 20_000) + command(b"GET", b"k") + command(b"DEL", b"k")
    expected = b"+OK\r\n$20000\r\n" + b"v" * 20_000 + b"\r\n:1\r\n"
    with service.raw() as raw:
        raw.send(stream * 20)
        assert raw.exactly(len(expected) * 20) == expected * 20
    with service.raw() as raw:
        for at in range(0, len(stream), 97):
            raw.send(stream[at : at + 97])
        assert raw.exactly(len(expected)) == expected


def test_drain_finishes_what_was_asked_and_refuses_newcomers(tmp_path: Path) -> None:
    with served(tmp_path, dram=4 * MIB, flash=32 * MIB) as service:
        client = service.client()
        blocks = [payload(number, 300_000) for number in range(40)]
        for number, data in enumerate(blocks):
            client.set(f"{number}", data)
        raw, idle = service.raw(), service.raw()
        raw.send(command(b"MGET", *[b"%d" % number for number in range(40)]))
        wait_until(lambda: any(not one.idle for one in service.server.connections.values()))
        stopper = threading.Thread(target=service.server.stop, args=(10.0,))
        stopper.start()
        assert raw.line() == b"*40\r\n"
        for data in blocks:
            assert raw.line() == b"$300000\r\n"
            assert raw.exactly(300_002) == data + b"\r\n"
        assert idle.closed()
        stopper.join(10)
        with pytest.raises(ConnectionRefusedError):
            Raw(service.port)
        raw.close()
        idle.close()
