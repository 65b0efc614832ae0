"""The file below the flash engine: whole vectored transfers, O_DIRECT where the file system allows it."""

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from agent.config import PAGE_BYTES
from agent.engines.base import EngineError
from agent.engines.checksum import Piece


class FlashFile:
    """An open backing file of fixed size. Offsets, lengths and memory given to it are multiples of a page."""

    def __init__(self, path: Path, size_bytes: int, io: str) -> None:
        """Open or make the file and give it its size.

        Raises:
            EngineError: it cannot be opened, is in use, or the disk has not the room that its size promises.
        """
        self.path = path
        self.direct = False
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EngineError(
                f"the flash file {path} cannot be opened ({error.strerror}): see KVAGENT_FLASH_FILE"
            ) from None
        try:
            self._claim()
            self._size(size_bytes)
            self._choose_io(io)
        except BaseException:
            os.close(self._fd)
            raise

    def readv(self, buffers: Sequence[Piece], offset: int) -> int:
        """Fill `buffers` from `offset` on; return the bytes. Raises `OSError` (EIO when the file ends too early)."""
        wanted = sum(map(len, buffers))
        done = os.preadv(self._fd, buffers, offset)
        while done < wanted:
            step = os.preadv(self._fd, _after(buffers, done), offset + done)
            if step == 0:
                raise OSError(errno.EIO, "the file ends inside a record")
            done += step
        return done

    def writev(self, buffers: Sequence[Piece], offset: int) -> int:
        """Write `buffers` at `offset`; return the bytes. Raises `OSError`."""
        wanted = sum(map(len, buffers))
        done = os.pwritev(self._fd, buffers, offset)
        while done < wanted:
            step = os.pwritev(self._fd, _after(buffers, done), offset + done)
            if step == 0:
                raise OSError(errno.ENOSPC, "the device takes no more bytes")
            done += step
        return done

    def next_data(self, offset: int) -> int | None:
        """Return where the next bytes that were ever written begin, None when there are none."""
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            return offset  # the file system cannot tell: everything may be data

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _claim(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EngineError(
                f"the flash file {self.path} is in use by another agent: stop it, or set KVAGENT_STATE_DIR"
            ) from None

    def _size(self, size_bytes: int) -> None:
        state = os.fstat(self._fd)
        free = os.fstatvfs(self._fd)
        missing = size_bytes - min(state.st_blocks * 512, size_bytes) - free.f_bavail * free.f_frsize
        if missing > 0:
            raise EngineError(
                f"the disk of {self.path} lacks {-(-missing >> 20)} MiB for the flash tier: "
                f"free some, or lower KVAGENT_FLASH_LIMIT_BYTES"
            )
        try:
            os.ftruncate(self._fd, size_bytes)
        except OSError as error:
            raise EngineError(
                f"the flash file {self.path} cannot get {size_bytes >> 20} MiB ({error.strerror}): "
                f"lower KVAGENT_FLASH_LIMIT_BYTES"
            ) from None

    def _choose_io(self, io: str) -> None:
        """Turn O_DIRECT on if asked, and read a page with it: some file systems accept the flag and refuse the read."""
        if io == "buffered":
            return
        flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        page = mmap.mmap(-1, PAGE_BYTES)
        try:
            fcntl.fcntl(self._fd, fcntl.F_SETFL, flags | os.O_DIRECT)
            os.preadv(self._fd, [page], 0)
            self.direct = True
        except OSError as error:
            fcntl.fcntl(self._fd, fcntl.F_SETFL, flags)
            if io == "direct":
                raise EngineError(
                    f"the file system of {self.path} refuses O_DIRECT ({error.strerror}): set KVAGENT_FLASH_IO=auto"
                ) from None


def _after(buffers: Sequence[Piece], done: int) -> list[Piece]:
    """Return what is left of `buffers` after the first `done` bytes."""
    rest: list[Piece] = []
    for piece in buffers:
        if done >= len(piece):
            done -= len(piece)
        else:
            rest.append(memoryview(piece)[done:] if done else piece)
            done = 0
    return rest
