"""What a benchmark ran on, in a few lines: a figure without its machine says nothing."""

import os
import platform
import shlex
import sys
import time
from pathlib import Path


def describe(programs: dict[str, str]) -> list[tuple[str, str]]:
    """Return (what, value) rows of this machine and the given programs' versions."""
    return [
        ("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
        ("CPU", f"{_cpu_model()}, {os.cpu_count()} threads"),
        ("memory", f"{_memory_bytes() / (1 << 30):.1f} GiB"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("Python", platform.python_version()),
        *programs.items(),
        ("command", shlex.join(["python", *sys.orig_argv[1:]])),
    ]


def cpu_seconds(process_id: int) -> float:
    """Return the user and system time that a process has used, all its threads together."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
