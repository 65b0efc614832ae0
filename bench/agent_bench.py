"""`python -m bench.agent_bench`: GET and SET of the storage agent against redis-server, side by side on one machine.

redis-benchmark drives both, over loopback TCP, with the same keys and values. Each round measures both servers right
after one another and the next round turns their order; what is compared is the median of the rounds' ratios, since
absolute figures of a shared machine move more than their ratio does.
"""

import argparse
import csv
import io
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.machine import cpu_seconds, describe
from bench.servers import BenchError, Server, find_program, running_agent, running_redis

SIZES_BYTES = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
KEYS = 32
BYTES_PER_RUN = 1 << 30
MIN_REQUESTS = 200
RUN_TIMEOUT_S = 300
WORKING_SET_FACTOR = 2
"""DRAM of the agent in working sets: an overwritten block's old copy lives until its last reader has gone."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of redis-benchmark against one server."""

    bytes_per_s: float
    p50_s: float
    p99_s: float
    cpu_s_per_gb: float


@dataclass(slots=True)
class Cell:
    """All rounds of one command at one size and number of connections; runs of both servers by name."""

    command: str
    size_bytes: int
    connections: int
    runs: dict[str, list[Run]] = field(default_factory=lambda: {"agent": [], "redis": []})

    def ratio(self, name: str) -> float:
        """Return the median over the rounds of agent / redis of a field of `Run`."""
        pairs = zip(self.runs["agent"], self.runs["redis"], strict=True)
        return float(median(getattr(agent, name) / (getattr(redis, name) or float("nan")) for agent, redis in pairs))

    def value(self, server: str, name: str) -> float:
        """Return the median over the rounds of a field of `Run`."""
        return float(median(getattr(run, name) for run in self.runs[server]))


def measure(options: argparse.Namespace) -> list[Cell]:
    """Run every round of every cell. Raises `BenchError`."""
    benchmark = find_program("redis-benchmark", "valkey-benchmark")
    server_program = find_program("redis-server", "valkey-server")
    working_set = KEYS * max(options.sizes)
    cells = [Cell(c, s, n) for s in options.sizes for n in options.connections for c in ("get", "set")]
    with running_redis(server_program) as redis, running_agent(WORKING_SET_FACTOR * working_set) as agent:
        for round_number in range(options.rounds):
            servers = [agent, redis] if round_number % 2 else [redis, agent]
            for cell in cells:
                for server in servers:
                    cell.runs[server.name].append(_run(benchmark, server, cell, options.bytes_per_run))
            print(f"round {round_number + 1} of {options.rounds} done", file=sys.stderr)
    return cells


def _run(benchmark: str, server: Server, cell: Cell, bytes_per_run: int) -> Run:
    _fill(server, cell.size_bytes)
    requests = max(MIN_REQUESTS, bytes_per_run // cell.size_bytes)
    command = [
        *(benchmark, "-h", "127.0.0.1", "-p", str(server.port), "-a", server.password, "--csv"),
        *("-t", cell.command, "-d", str(cell.size_bytes), "-c", str(cell.connections)),
        *("-n", str(requests), "-r", str(KEYS)),
    ]
    before_s = cpu_seconds(server.process_id)
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    used_s = cpu_seconds(server.process_id) - before_s
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    if done.returncode or len(rows) != 1:
        raise BenchError(f"redis-benchmark failed against {server.name}: {(done.stderr or done.stdout).strip()[-200:]}")
    return Run(
        bytes_per_s=float(rows[0]["rps"]) * cell.size_bytes,
        p50_s=float(rows[0]["p50_latency_ms"]) / 1000,
        p99_s=float(rows[0]["p99_latency_ms"]) / 1000,
        cpu_s_per_gb=used_s / (requests * cell.size_bytes / 1e9),
    )


def _fill(server: Server, size_bytes: int) -> None:
    """Store every key that redis-benchmark can draw at this size: no GET of a run may be a miss."""
    value = b"x" * size_bytes
    with server.client() as client:
        for number in range(KEYS):
            client.set(f"key:{number:012d}", value)
        if client.exists(*(f"key:{number:012d}" for number in range(KEYS))) != KEYS:
            raise BenchError(f"{server.name} does not hold {KEYS} values of {size_bytes} bytes")


def table(cells: Sequence[Cell]) -> list[str]:
    """Return the results as lines of a Markdown table."""
    lines = [
        "| command | size | connections | agent MB/s | redis MB/s | **ratio** | agent p50/p99 ms | redis p50/p99 ms "
        "| CPU s/GB ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        latencies = [
            f"{cell.value(server, 'p50_s') * 1e3:.2f} / {cell.value(server, 'p99_s') * 1e3:.2f}"
            for server in ("agent", "redis")
        ]
        lines.append(
            f"| {cell.command.upper()} | {cell.size_bytes >> 10} KiB | {cell.connections} "
            f"| {cell.value('agent', 'bytes_per_s') / 1e6:.0f} | {cell.value('redis', 'bytes_per_s') / 1e6:.0f} "
            f"| **{cell.ratio('bytes_per_s'):.2f}** | {latencies[0]} | {latencies[1]} "
            f"| {cell.ratio('cpu_s_per_gb'):.2f} |"
        )
    return lines


def report(cells: Sequence[Cell], options: argparse.Namespace) -> str:
    """Return the whole result as Markdown: how it was measured, the table, the machine."""
    version = subprocess.run(
        [find_program("redis-server", "valkey-server"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    method = (
        f"Medians of {options.rounds} interleaved rounds; ratio = agent / redis-server of the same round (above 1: the "
        f"agent is faster). redis-benchmark, loopback TCP, {KEYS} keys, at least {MIN_REQUESTS} requests and "
        f"{options.bytes_per_run >> 20} MiB a run; the agent keeps all of them in DRAM, verifies the checksum of each "
        "block that it serves, and has no flash tier here. CPU s/GB ratio: CPU time of the server per byte moved, "
        "below 1: the agent needs less."
    )
    machine = [f"- {what}: {value}" for what, value in describe({"Redis": version.strip()})]
    return "\n".join(["## Agent against redis-server", "", method, "", *table(cells), "", *machine, ""])


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("give a whole number above 0")
    return value


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent_bench", description=__doc__)
    parser.add_argument("--sizes", type=_positive, nargs="+", default=list(SIZES_BYTES), metavar="BYTES")
    parser.add_argument("--connections", type=_positive, nargs="+", default=[4], metavar="N")
    parser.add_argument("--rounds", type=_positive, default=5)
    parser.add_argument("--bytes-per-run", type=_positive, default=BYTES_PER_RUN, metavar="BYTES")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the report there")
    return parser.parse_args(arguments)


def main() -> int:
    """Measure, print, and write where asked; 2 when something needed is missing."""
    options = parse()
    try:
        text = report(measure(options), options)
    except (BenchError, subprocess.TimeoutExpired) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
