"""The exposition parser against prometheus_client's own, on real and generated pages; and what garbage does to it."""

import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from telemetry.scrape.parse import ExpositionParser, Fault
from telemetry.series.catalog import Catalog, Family, Kind
from telemetry.series.text import MAX_LABELS, MAX_LINE_CHARS, MAX_VALUE_CHARS, parse_series, series_text

NOW_S = 1_800_000_000.0


def names_in(text: str) -> set[str]:
    return {parse_series(line.strip())[0] for line in text.split("\n") if line.strip() and line.strip()[0] != "#"}


def everything_in(text: str) -> Catalog:
    """A catalogue that knows every name of a page, as gauges, so that nothing is dropped for its sign."""
    return Catalog([Family(name, Kind.GAUGE) for name in names_in(text)])


def ours(text: str, parser: ExpositionParser) -> dict[str, float]:
    return {series.text: value for series, value in parser.parse(text.encode(), NOW_S).values.items()}


def theirs(text: str) -> dict[str, float]:
    out = {}
    names = names_in(text)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            # Their parser renames counters that are not called _total; ours keeps what is on the wire.
            name = sample.name if sample.name in names else sample.name.removesuffix("_total")
            out.setdefault(series_text(name, sample.labels), float(sample.value))
    return out


@pytest.mark.shared
@pytest.mark.parametrize("attempt", ["cold", "warm"])
def test_parse_shared_samples_equals_prometheus_client(shared_dir: Path, attempt: str) -> None:
    pages = sorted((shared_dir / "samples" / "metrics").glob("*.txt"))
    assert pages
    for page in pages:
        text = page.read_text()
        parser = ExpositionParser(everything_in(text), 100_000)
        if attempt == "warm":
            ours(text, parser)
        assert ours(text, parser) == theirs(text), page.name


@pytest.mark.shared
def test_parse_keyed_is_several_times_as_fast_as_prometheus_client(shared_dir: Path) -> None:
    page = max((shared_dir / "samples" / "metrics").glob("*.txt"), key=lambda path: path.stat().st_size)
    text = page.read_text()
    body, parser = text.encode(), ExpositionParser(everything_in(text), 100_000)
    parser.parse(body, NOW_S)
    mine = min(_seconds(lambda: parser.parse(body, NOW_S)) for _ in range(5))
    other = min(_seconds(lambda: list(text_string_to_metric_families(text))) for _ in range(2))
    assert other / mine > 4, f"{other / mine:.1f} times"


def _seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


label_text = st.text(alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="\r"), max_size=12)
label_name = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True).filter(lambda n: not n.startswith("__"))
metric_name = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
number = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def pages(draw: st.DrawFn) -> str:
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        labels = draw(st.dictionaries(label_name, label_text, max_size=4))
        space = draw(st.sampled_from([" ", "  ", "\t"]))
        stamp = draw(st.sampled_from(["", f" {int(NOW_S * 1000)}"]))
        lines.append(f"{series_text(draw(metric_name), labels)}{space}{draw(number)!r}{stamp}")
        if draw(st.booleans()):
            lines.append(draw(st.sampled_from(["", "# a comment", "#", "   "])))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@given(pages())
@settings(max_examples=120, deadline=None)
def test_parse_generated_text_equals_prometheus_client(text: str) -> None:
    parser = ExpositionParser(everything_in(text), 1000)
    first = {}
    for line in text.split("\n"):  # the oracle keeps the last of two equal series, we the first
        if line.strip() and not line.strip().startswith("#"):
            for key, value in theirs(line).items():
                first.setdefault(key, value)
    assert ours(text, parser) == first
    assert ours(text, parser) == first, "the second, keyed reading differs from the first"


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_parse_any_text_never_raises(text: str) -> None:
    catalog = Catalog([Family("a", Kind.COUNTER), Family("h", Kind.HISTOGRAM)])
    parser = ExpositionParser(catalog, 10)
    for body in (text, f"a {text}\nh_bucket{{le={text}}} 1", f'a{{l="{text}"}} 1'):
        parser.parse(body.encode("utf-8", "surrogatepass"), NOW_S)


def _catalog() -> Catalog:
    return Catalog([Family("hits_total", Kind.COUNTER), Family("level", Kind.GAUGE), Family("ttft", Kind.HISTOGRAM)])


def _parse(text: str, max_series: int = 100) -> tuple[dict[str, float], dict[str, int], int]:
    out = ExpositionParser(_catalog(), max_series).parse(text.encode(), NOW_S)
    return {s.text: v for s, v in out.values.items()}, dict(out.faults), out.unknown_samples


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("hits_total", Fault.GARBAGE_LINE),
        ("hits_total one", Fault.GARBAGE_LINE),
        ("hits_total 1 2 3", Fault.GARBAGE_LINE),
        ("hits_total 1_000", Fault.GARBAGE_LINE),
        ("hits_total{a=1} 1", Fault.GARBAGE_LINE),
        ('hits_total{a="x" 1', Fault.GARBAGE_LINE),
        ('hits_total{a="x",a="y"} 1', Fault.GARBAGE_LINE),
        ("<html>no metrics here</html>", Fault.GARBAGE_LINE),
        ('ttft_bucket{le="high"} 1', Fault.GARBAGE_LINE),
        ("ttft_bucket 1", Fault.GARBAGE_LINE),
        ("hits_total NaN", Fault.NOT_FINITE),
        ("level +Inf", Fault.NOT_FINITE),
        ("level 1e999", Fault.NOT_FINITE),
        ("hits_total -1", Fault.NEGATIVE_COUNTER),
        ("level " + "1" * (MAX_LINE_CHARS + 1), Fault.LINE_TOO_LONG),
        (f'level{{a="{"x" * (MAX_VALUE_CHARS + 1)}"}} 1', Fault.LABEL_LIMIT),
        ("level{" + ",".join(f'l{i}="x"' for i in range(MAX_LABELS + 1)) + "} 1", Fault.LABEL_LIMIT),
    ],
)
def test_parse_bad_line_is_counted_and_the_rest_is_kept(line: str, fault: Fault) -> None:
    values, faults, _ = _parse(f'hits_total{{a="good"}} 1\n{line}\nlevel{{b="good"}} -2.5\n')
    assert values == {'hits_total{a="good"}': 1.0, 'level{b="good"}': -2.5}
    assert faults == {fault: 1}


def test_parse_bad_value_of_a_known_series_is_counted_on_the_fast_path() -> None:
    parser = ExpositionParser(_catalog(), 10)
    parser.parse(b"hits_total 1\n", NOW_S)
    for text, fault in (
        ("NaN", Fault.NOT_FINITE),
        ("-3", Fault.NEGATIVE_COUNTER),
        ("1_0", Fault.GARBAGE_LINE),
        ("x", Fault.GARBAGE_LINE),
    ):
        out = parser.parse(f"hits_total {text}\n".encode(), NOW_S)
        assert not out.values
        assert dict(out.faults) == {fault: 1}


def test_parse_duplicate_series_keeps_the_first_however_it_is_written() -> None:
    values, faults, _ = _parse('level{a="1",b="2"} 1\nlevel{b="2",a="1"} 2\nlevel{a="1",b="2"} 3')
    assert values == {'level{a="1",b="2"}': 1.0}
    assert faults == {Fault.DUPLICATE_SERIES: 2}


def test_parse_cardinality_bomb_is_cut_counted_exactly_and_forgotten() -> None:
    parser = ExpositionParser(_catalog(), 50)
    for turn in range(5):
        body = "".join(f'hits_total{{id="{turn}-{i}"}} {i}\n' for i in range(1000))
        out = parser.parse(body.encode(), NOW_S)
        assert len(out.values) == 50
        assert out.faults == {Fault.SERIES_LIMIT: 950}
        assert not out.complete
        assert len(parser._known) <= 100


def test_parse_unknown_metrics_are_counted_not_kept() -> None:
    values, faults, unknown = _parse('other_total 5\nother{a="b"} 1\nlevel 1\n# HELP x y\n')
    assert (values, faults, unknown) == ({"level": 1.0}, {}, 2)


def test_parse_histogram_keeps_buckets_with_bounds_and_one_group() -> None:
    body = 'ttft_bucket{m="x",le="0.5"} 1\nttft_bucket{m="x",le="+Inf"} 3\nttft_sum{m="x"} 2.5\nttft_count{m="x"} 3\n'
    out = ExpositionParser(_catalog(), 10).parse(body.encode(), NOW_S)
    assert {series.bound for series in out.values} == {0.5, math.inf, None}
    assert {series.group for series in out.values} == {'ttft{m="x"}'}


def test_parse_exposed_timestamps_skewed_are_counted_and_value_kept() -> None:
    far_ms = int((NOW_S - 3600) * 1000)
    values, faults, _ = _parse(f"level 7 {far_ms}\nhits_total 1 {int(NOW_S * 1000)}")
    assert values == {"level": 7.0, "hits_total": 1.0}
    assert faults == {Fault.CLOCK_SKEW: 1}


def test_parse_exposed_timestamps_that_run_back_or_repeat_with_another_value_are_dropped() -> None:
    parser = ExpositionParser(_catalog(), 10)
    now_ms = int(NOW_S * 1000)
    assert parser.parse(f"level 1 {now_ms}".encode(), NOW_S).values
    again = parser.parse(f"level 1 {now_ms}".encode(), NOW_S)
    assert again.values
    assert not again.faults
    assert parser.parse(f"level 2 {now_ms}".encode(), NOW_S).faults == {Fault.DUPLICATE_TIMESTAMP: 1}
    assert parser.parse(f"level 2 {now_ms - 5}".encode(), NOW_S).faults == {Fault.OUT_OF_ORDER: 1}


def test_parse_bytes_that_are_not_utf8_cost_one_label_not_the_page() -> None:
    out = ExpositionParser(_catalog(), 10).parse(b'level{a="\xff\xfe"} 1\nhits_total 2\n', NOW_S)
    assert len(out.values) == 2


def test_parse_quoted_utf8_name_is_read() -> None:
    values, faults, _ = _parse('{"level", "my.label"="x"} 4\n')
    assert list(values.values()) == [4.0]
    assert not faults
