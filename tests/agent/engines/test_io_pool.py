"""I/O threads: reads first, errors of a job do not end a thread, close finishes what was submitted."""

import threading

from agent.engines.io_pool import IoPool, Scratch


def test_io_pool_reads_go_before_waiting_writes() -> None:
    pool = IoPool(1)
    gate, order = threading.Event(), []

    def job(name: str) -> "object":
        return lambda _: order.append(name)

    pool.submit_write(lambda _: gate.wait(5) and None)
    for number in range(3):
        pool.submit_write(job(f"write {number}"))
    pool.submit_read(job("read"))
    gate.set()
    pool.close()
    assert order == ["read", "write 0", "write 1", "write 2"]


def test_io_pool_survives_a_failing_job_and_close_finishes_the_rest() -> None:
    pool = IoPool(2)
    done = []

    def fail(_: Scratch) -> None:
        raise RuntimeError("a bug")

    for _ in range(5):
        pool.submit_read(fail)
    for number in range(20):
        pool.submit_write(lambda _, number=number: done.append(number))
    pool.close()
    assert sorted(done) == list(range(20))
    assert pool.backlog == 0
