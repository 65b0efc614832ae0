"""Where the replayed requests come from: a generator without end, or a file played over and over."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from kvcache.trace import Request, TraceError, read_trace
from kvcache.trace.generator import PRESETS, generate

GENERATOR_PREFIX = "generator:"
MOONCAKE_BLOCK_TOKENS = 512
"""Block size of a file that does not say one: Mooncake's own traces leave it out."""
WARM_UP_S = 3600.0
"""Generated trace time that is left out: a population begins with nobody in it, and takes that long to fill."""
PAUSE_S = 1.0
"""Trace time between the last request of a file and its first one again."""


class SourceError(Exception):
    """The trace cannot be played: one line that says why and what would be right."""


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """A request and the trace time at which it is due, in seconds from the first one, over all rounds."""

    due_s: float
    request: Request


@dataclass(frozen=True, slots=True)
class Source:
    """A trace by name. `name` is short and stable: it is part of the blocks' keys and a metric label."""

    name: str
    path: Path | None = None
    preset: str = ""
    seed: int = 0

    def requests(self) -> Iterator[TimedRequest]:
        """Yield requests for ever.

        A generator goes on with new sessions. A file begins again after `PAUSE_S` with the same block ids, so from the
        second round on everything that is still stored is a hit.

        Raises:
            SourceError: the file cannot be read, holds a bad line or no request.
        """
        if self.path is None:
            for request in generate(PRESETS[self.preset], self.seed):
                due_s = request.timestamp_ms / 1000 - WARM_UP_S
                if due_s >= 0:
                    yield TimedRequest(due_s, request)
        else:
            offset_s = 0.0
            while True:
                last_s = yield from self._round(self.path, offset_s)
                offset_s = last_s + PAUSE_S

    def _round(self, path: Path, offset_s: float) -> Generator[TimedRequest, None, float]:
        first_ms: float | None = None
        due_s = offset_s
        try:
            for request in read_trace(path, default_block_tokens=MOONCAKE_BLOCK_TOKENS):
                first_ms = request.timestamp_ms if first_ms is None else first_ms
                due_s = offset_s + (request.timestamp_ms - first_ms) / 1000
                yield TimedRequest(due_s, request)
        except TraceError as error:
            raise SourceError(f"{path.name}: {error}") from None
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror}") from None
        if first_ms is None:
            raise SourceError(f"{path.name} holds no request: give a trace with one JSON object per line")
        return due_s


def parse_source(spec: str, seed: int = 0) -> Source:
    """Return the source that `spec` names: `generator:agentic`, `generator:chat` or a path to a trace file.

    Raises:
        SourceError: no such preset, or no such file.
    """
    if spec.startswith(GENERATOR_PREFIX):
        preset = spec.removeprefix(GENERATOR_PREFIX)
        if preset not in PRESETS:
            known = ", ".join(GENERATOR_PREFIX + name for name in PRESETS)
            raise SourceError(f"FABRIC_TRACE={spec} names no generator: give {known} or a trace file")
        return Source(name=spec, preset=preset, seed=seed)
    path = Path(spec).expanduser()
    if not path.is_file():
        raise SourceError(f"FABRIC_TRACE={spec} is no file: give a .jsonl or .jsonl.gz trace, or generator:agentic")
    return Source(name=path.name.removesuffix(".gz").removesuffix(".jsonl"), path=path.resolve())
