"""Trace statistics and their command."""

import io
from pathlib import Path

import pytest

from kvcache.trace import Request, read_trace, write_trace
from kvcache.trace.stats import main, measure


def _request(at_s: float, ids: tuple[int, ...], session: str | None = None) -> Request:
    return Request(at_s * 1000, 100 * len(ids), 10, ids, 100, session)


def test_measure_counts_reuse_by_hand() -> None:
    stats = measure([_request(0, (1, 2, 3), "a"), _request(10, (1, 2, 4), "a"), _request(14, (1, 5), "b")])
    assert (stats.requests, stats.accesses, stats.unique_blocks, stats.sessions) == (3, 8, 5, 2)
    assert stats.reuse_ratio == 3 / 8
    assert stats.token_reuse_ratio == 300 / 800
    assert stats.used_once_ratio == 3 / 5
    assert stats.reuse_gap_s == {50: 10.0, 90: 10.0, 99: 10.0}
    assert (stats.duration_s, stats.mean_output_tokens) == (14.0, 10.0)


def test_measure_known_block_behind_a_gap_counts_as_block_but_not_as_prefix() -> None:
    stats = measure([_request(0, (1, 2)), _request(1, (9, 2))])
    assert stats.reuse_ratio == 1 / 4
    assert stats.token_reuse_ratio == 0.0


def test_measure_empty_trace_has_no_ratios() -> None:
    stats = measure([])
    assert stats.reuse_ratio is stats.mean_input_tokens is stats.used_once_ratio is None
    assert stats.reuse_gap_s == {}


def test_command_prints_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl.gz"
    stream = io.BytesIO()
    write_trace([_request(0, (1, 2)), _request(5, (1,))], stream)
    path.write_bytes(stream.getvalue())
    assert main([str(path)]) == 0
    shown = capsys.readouterr().out
    assert "33.33 %" in shown
    assert "P50 5.0 s" in shown


def test_command_prints_a_generator_and_an_empty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generator:chat:3:20"]) == 0
    assert "requests                  20\n" in capsys.readouterr().out
    (tmp_path / "empty").write_bytes(b"")
    assert main([str(tmp_path / "empty")]) == 0


@pytest.mark.parametrize(
    "source", ["generator:", "generator:nope", "generator:chat:x", "generator:chat:1:2:3", "/no/file"]
)
def test_command_bad_source_is_one_line_and_status_1(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([source]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_command_without_one_argument_shows_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["a", "b"]) == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.shared
def test_measure_conversation_equals_the_reference_notes(shared_dir: Path) -> None:
    stats = measure(read_trace(shared_dir / "traces" / "mooncake_conversation.jsonl.gz"))
    assert f"{stats.reuse_ratio:.4f}" == "0.3664"
    assert f"{stats.used_once_ratio:.3f}" == "0.758"
    assert {percent: round(gap_s) for percent, gap_s in stats.reuse_gap_s.items()} == {50: 114, 90: 519, 99: 1578}
    assert (round(stats.mean_input_tokens or 0), round(stats.mean_output_tokens or 0)) == (12_035, 343)
