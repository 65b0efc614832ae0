"""What a frame holds, and which marks it carries."""

from uuid import UUID, uuid4

import orjson
import pytest

from telemetry.kpis import BY_NAME, KPIS
from telemetry.live.frames import FrameBuilder, Mark, SourceView
from telemetry.live.ring import LiveFrame, Position, missed_since, parse_frame
from telemetry.series.slices import Slice

POOL, OTHER, ALPHA, BETA = uuid4(), uuid4(), uuid4(), uuid4()


def view(agent_id: UUID, pool_id: UUID, rates: Slice | None = None) -> SourceView:
    return SourceView(str(agent_id), agent_id, pool_id, True, "live", 0.123, rates, rates)


def built(builder: FrameBuilder, marks: list[Mark] | None = None, rates: Slice | None = None) -> dict[str, dict]:
    views = [view(ALPHA, POOL, rates), view(BETA, OTHER)]
    return {
        frame.topic: orjson.loads(frame.body) for frame in builder.build(1.23456, views, [POOL, OTHER], marks or [])
    }


def test_each_topic_has_its_own_numbers_and_all_kpis() -> None:
    builder = FrameBuilder()
    for turn in (1, 2, 3):
        frames = built(builder)
        assert set(frames) == {"overview", f"pool:{POOL}", f"pool:{OTHER}", f"agent:{ALPHA}", f"agent:{BETA}"}
        for frame in frames.values():
            assert (frame["seq"], frame["epoch"], frame["at_s"]) == (turn, builder.epoch, 1.235)
            assert set(frame["kpis"]) == {kpi.name for kpi in KPIS}
    assert [agent["id"] for agent in frames["overview"]["agents"]] == [str(ALPHA), str(BETA)]
    assert [agent["id"] for agent in frames[f"pool:{OTHER}"]["agents"]] == [str(BETA)]
    assert [agent["id"] for agent in frames[f"agent:{ALPHA}"]["agents"]] == [str(ALPHA)]
    assert FrameBuilder().epoch != builder.epoch


def test_numbers_have_six_significant_digits() -> None:
    selector = BY_NAME["set_bytes_per_s"].expression.selectors[0]
    part = Slice(covered_s=3.0, increases={selector: 1.0e7}, observed={selector.name})
    assert built(FrameBuilder(), rates=part)["overview"]["kpis"]["set_bytes_per_s"] == 3333330.0


@pytest.mark.parametrize(
    ("mark", "topics"),
    [
        (
            Mark(1, "k", "everyone", ""),
            {"overview", f"pool:{POOL}", f"pool:{OTHER}", f"agent:{ALPHA}", f"agent:{BETA}"},
        ),
        (Mark(1, "k", "pool", "", pool_id=POOL), {"overview", f"pool:{POOL}", f"agent:{ALPHA}"}),
        (Mark(1, "k", "agent", "", pool_id=POOL, agent_id=ALPHA), {"overview", f"pool:{POOL}", f"agent:{ALPHA}"}),
        (Mark(1, "k", "another of the pool", "", pool_id=POOL, agent_id=uuid4()), {"overview", f"pool:{POOL}"}),
    ],
    ids=["everyone", "pool", "agent", "another agent"],
)
def test_marks_stand_on_the_charts_that_they_concern(mark: Mark, topics: set[str]) -> None:
    frames = built(FrameBuilder(), [mark])
    assert {topic for topic, frame in frames.items() if frame["marks"]} == topics
    assert frames["overview"]["marks"] == [{"at_s": 1, "kind": "k", "label": mark.label, "url": ""}]


def test_front_of_a_frame_is_read_without_parsing_all_of_it() -> None:
    builder = FrameBuilder()
    for frame in builder.build(1.0, [view(ALPHA, POOL)], [POOL], []):
        found = parse_frame(frame.body)
        assert (found.topic, found.epoch, found.seq) == (frame.topic, builder.epoch, 1)
    for body in (
        b"",
        b"{}",
        b'{"type":"frame"}',
        b"\xff\xfe",
        b'{"topic":"overview","type":"frame","epoch":"a","seq":1}',
    ):
        with pytest.raises(ValueError):
            parse_frame(body)


def ring(*seqs: int, epoch: str = "e") -> list[LiveFrame]:
    return [LiveFrame("overview", epoch, seq, "") for seq in seqs]


@pytest.mark.parametrize(
    ("frames", "position", "reset", "seqs"),
    [
        (ring(1, 2, 3), Position(), False, [1, 2, 3]),
        (ring(1, 2, 3), Position("e", 1), False, [2, 3]),
        (ring(1, 2, 3), Position("e", 3), False, []),
        (ring(1, 2, 3), Position("e", 4), True, [1, 2, 3]),
        (ring(1, 2, 3), Position("x", 2), True, [1, 2, 3]),
        (ring(7, 8, 11), Position("e", 2), False, [7, 8, 11]),
        (ring(7, 8, 11), Position("e", 8), False, [11]),
        ([], Position("e", 8), False, []),
    ],
)
def test_missed_since(frames: list[LiveFrame], position: Position, reset: bool, seqs: list[int]) -> None:
    found = missed_since(frames, position)
    assert (found.reset, [frame.seq for frame in found.frames]) == (reset, seqs)
