"""A few threads for device I/O. Reads go before writes: somebody waits for a read."""

import logging
import mmap
import queue
import threading
from collections import deque
from collections.abc import Callable

from agent.config import PAGE_BYTES

HEADER_PAGES = 64
"""Headers that one vectored call may carry."""
BOUNCE_BYTES = 64 << 10

logger = logging.getLogger("agent.io")


class Scratch:
    """Page-aligned memory of one I/O thread: pages for headers, and a buffer for what is not aligned itself."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, HEADER_PAGES * PAGE_BYTES + BOUNCE_BYTES)
        whole = memoryview(self._memory)
        self.pages = [whole[i * PAGE_BYTES : (i + 1) * PAGE_BYTES] for i in range(HEADER_PAGES)]
        self.bounce = whole[HEADER_PAGES * PAGE_BYTES :]


Job = Callable[[Scratch], None]


class IoPool:
    """Runs jobs on threads that each have a `Scratch`."""

    def __init__(self, threads: int) -> None:
        self._tokens: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._reads: deque[Job] = deque()
        self._writes: deque[Job] = deque()
        self._threads = [threading.Thread(target=self._run, name=f"io-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit_read(self, job: Job) -> None:
        """Run `job` before every write that waits."""
        self._reads.append(job)
        self._tokens.put(True)

    def submit_write(self, job: Job) -> None:
        """Run `job` once no read waits."""
        self._writes.append(job)
        self._tokens.put(True)

    @property
    def backlog(self) -> int:
        """Number of jobs that no thread has begun."""
        return len(self._reads) + len(self._writes)

    def close(self) -> None:
        """Finish every job that was submitted, then end the threads."""
        for _ in self._threads:
            self._tokens.put(False)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        scratch = Scratch()
        while self._tokens.get():
            try:
                job = self._reads.popleft()
            except IndexError:
                job = self._writes.popleft()
            try:
                job(scratch)
            except Exception:
                # A job answers for its own errors; one that did not must not take the thread with it.
                logger.exception("an I/O job failed unexpectedly")
            del job
