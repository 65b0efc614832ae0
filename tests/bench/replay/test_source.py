"""Where requests come from, and what is said when they cannot."""

from itertools import islice, pairwise
from pathlib import Path

import pytest

from bench.replay.source import PAUSE_S, SourceError, parse_source
from tests.bench.replay.conftest import request, write_requests


def test_file_is_played_over_and_over_with_rising_times_and_the_same_blocks(tmp_path: Path) -> None:
    path = write_requests(tmp_path / "t.jsonl.gz", request(1, at_ms=5000), request(1, 2, at_ms=7000))
    source = parse_source(str(path))
    played = list(islice(source.requests(), 5))
    assert source.name == "t"
    assert [timed.due_s for timed in played] == [0, 2, 2 + PAUSE_S, 4 + PAUSE_S, 4 + 2 * PAUSE_S]
    assert [timed.request.block_ids for timed in played] == [(1,), (1, 2)] * 2 + [(1,)]


@pytest.mark.parametrize("name", ["agentic", "chat"])
def test_generator_goes_on_and_is_the_same_for_the_same_seed(name: str) -> None:
    first = list(islice(parse_source(f"generator:{name}").requests(), 200))
    again = list(islice(parse_source(f"generator:{name}").requests(), 200))
    other = list(islice(parse_source(f"generator:{name}", seed=1).requests(), 200))
    assert first == again != other
    assert 0 <= first[0].due_s < 10
    assert first[-1].due_s < 600, "it begins among a population that is at work"
    assert all(a.due_s <= b.due_s for a, b in pairwise(first))


def test_unknown_generator_names_the_known_ones() -> None:
    with pytest.raises(SourceError, match="generator:agentic, generator:chat"):
        parse_source("generator:quantum")


def test_missing_file_is_named() -> None:
    with pytest.raises(SourceError, match=r"FABRIC_TRACE=/none/t.jsonl is no file: give a \.jsonl"):
        parse_source("/none/t.jsonl")


def test_bad_line_is_named_when_it_is_reached(tmp_path: Path) -> None:
    path = write_requests(tmp_path / "t.jsonl", request(1))
    path.write_bytes(path.read_bytes() + b"{}\n")
    requests = parse_source(str(path)).requests()
    next(requests)
    with pytest.raises(SourceError, match=r"t\.jsonl: line 2, field timestamp"):
        next(requests)


def test_empty_file_is_refused_and_not_played_for_ever(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(b"\n")
    with pytest.raises(SourceError, match="holds no request"):
        next(parse_source(str(tmp_path / "t.jsonl")).requests())
