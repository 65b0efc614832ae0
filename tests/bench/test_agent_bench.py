"""The bench on sizes so small that only its plumbing is measured."""

import subprocess
import sys
from pathlib import Path

import psutil

from bench.agent_bench import Cell, Run, table
from tests.conftest import ROOT
from tests.support.servers import clean_environment


def _bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.agent_bench", *arguments],
        cwd=ROOT,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_bench_measures_both_servers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    sizes = ["4096", "65536"]
    done = _bench(
        "--sizes",
        *sizes,
        "--rounds",
        "2",
        "--bytes-per-run",
        "1048576",
        "--markdown",
        str(report),
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith(("| GET", "| SET"))]
    assert [row.split("|")[1:3] for row in rows] == [
        [f" {command} ", f" {size} KiB "] for size in (4, 64) for command in ("GET", "SET")
    ]
    assert all(float(row.split("**")[1]) > 0 for row in rows)
    assert "- command: python -m bench.agent_bench --sizes 4096 65536" in report.read_text()
    left = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]
    assert not left


def test_missing_program_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    done = _bench(PATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("bench: redis-benchmark is not installed: on Debian, apt-get install")
    assert done.stderr.count("\n") == 1


def test_ratio_is_the_median_of_ratios_within_rounds() -> None:
    cell = Cell("get", 65536, 4)
    for agent, redis in ((100.0, 50.0), (30.0, 10.0), (8.0, 8.0)):
        cell.runs["agent"].append(Run(agent, 0.001, 0.002, 0.5))
        cell.runs["redis"].append(Run(redis, 0.002, 0.004, 1.0))
    assert cell.ratio("bytes_per_s") == 2.0
    assert cell.ratio("cpu_s_per_gb") == 0.5
    assert table([cell])[-1].startswith("| GET | 64 KiB | 4 | 0 | 0 | **2.00** | 1.00 / 2.00 | 2.00 / 4.00 | 0.50 |")
