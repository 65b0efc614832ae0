"""Tick log, roll-ups, purge and reading back, on the real database."""

import math
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from telemetry.kpis import BY_NAME, KPIS
from telemetry.models import Layout, Rollup, Source, Tick
from telemetry.series import query as query_module
from telemetry.series.levels import FIVE_MIN_S, RAW_S, TEN_S, Retention
from telemetry.series.query import over_window, query
from telemetry.series.reader import slices_of_sources
from telemetry.series.rollup import BATCH_BUCKETS, RAW_GRACE_S, SETTLED_AFTER_S, roll_up
from telemetry.series.slices import Slice
from telemetry.series.store import LayoutKey, SourceKey, TickLog, TickRow
from tests.telemetry.series.history import FOR_EVER, T0, agent_samples, write

pytestmark = pytest.mark.django_db

SOURCE = SourceKey("agent:a", "a", "agent")
SELECTORS = frozenset(selector for kpi in KPIS for selector in kpi.expression.selectors)


@pytest.fixture(autouse=True)
def keep_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_module, "retention_from_settings", lambda: FOR_EVER)


def run_roll_up(now_s: float, retention: Retention = FOR_EVER) -> int:
    return roll_up(now_s=now_s, retention=retention, budget_s=60).buckets


def total(level_s: int, start_s: int, end_s: int) -> Slice:
    out = Slice()
    for _, _, part in slices_of_sources(
        [(pk, "") for pk in Source.objects.values_list("pk", flat=True)], level_s, start_s, end_s, SELECTORS
    ):
        out.add(part)
    return out


def assert_same(a: Slice, b: Slice) -> None:
    assert a.covered_s == pytest.approx(b.covered_s)
    assert a.observed == b.observed
    assert a.increases == pytest.approx(b.increases)
    assert {s: v for s, (v, _) in a.levels.items()} == pytest.approx({s: v for s, (v, _) in b.levels.items()})
    assert a.buckets.keys() == b.buckets.keys()
    for selector, bounds in a.buckets.items():
        assert bounds == pytest.approx(b.buckets[selector])


def test_append_same_tick_twice_keeps_the_first() -> None:
    write(SOURCE, [(T0, agent_samples(0))])
    write(SOURCE, [(T0, agent_samples(9))])
    assert Tick.objects.count() == 1
    assert total(RAW_S, T0, T0 + 1).levels[BY_NAME["stored_bytes_dram"].expression.selectors[0]] == (1e6, 1)


def test_append_one_tick_of_many_sources_is_one_transaction_with_one_insert() -> None:
    log = TickLog()
    layout = LayoutKey("d", ("kvfabric_agent_set_bytes_total",))
    sources = [SourceKey(f"agent:{i}", f"{i}", "agent") for i in range(20)]
    log.append([TickRow(source, T0 * 1000, layout, b"\x01" + b"0" * 8) for source in sources])
    with CaptureQueriesContext(
        connection,
    ) as queries:
        log.append([TickRow(source, T0 * 1000 + 1000, layout, b"\x01" + b"0" * 8) for source in sources])
    assert sum("INSERT" in query["sql"] for query in queries) == 1
    assert Tick.objects.count() == 40


def test_append_survives_rows_that_were_purged_behind_its_back() -> None:
    log = TickLog()
    row = TickRow(SOURCE, T0 * 1000, LayoutKey("d", ("kvfabric_agent_set_bytes_total",)), b"\x01" + b"0" * 8)
    log.append([row])
    Tick.objects.all().delete()
    Source.objects.all().delete()
    Layout.objects.all().delete()
    connection.check_constraints()
    log = TickLog()
    log.append([row])
    assert Tick.objects.count() == 1


def test_source_membership_follows_the_inventory() -> None:
    pool = uuid4()
    write(SOURCE, [(T0, agent_samples(0))])
    write(SourceKey("agent:a", "renamed", "agent", pool_id=pool), [(T0 + 1, agent_samples(1))])
    source = Source.objects.get()
    assert (source.name, source.pool_id) == ("renamed", pool)


def test_roll_up_levels_say_the_same_as_raw() -> None:
    write(SOURCE, [(T0 + i, agent_samples(i)) for i in range(901)])
    raw = total(RAW_S, T0, T0 + 900)
    assert run_roll_up(T0 + 901) == 90 + 2
    assert run_roll_up(T0 + 901) == 0, "nothing is rolled up twice"
    assert Rollup.objects.filter(level_s=TEN_S).count() == 90
    assert Rollup.objects.filter(level_s=FIVE_MIN_S).count() == 2, "the third 5 min are not complete before a later row"
    assert_same(total(TEN_S, T0, T0 + 900), raw)
    assert_same(total(FIVE_MIN_S, T0, T0 + 900), raw)


def test_roll_up_across_a_restart_a_gap_and_a_new_series_says_the_same_as_raw() -> None:
    history = [(T0 + i, agent_samples(i)) for i in range(47)]
    history += [(T0 + i, agent_samples(i - 47, start_s=2000.0, speed=30)) for i in range(47, 95)]
    history += [(T0 + i, agent_samples(i - 47, start_s=2000.0, speed=30)) for i in range(130, 200)]
    late = 'kvfabric_agent_evicted_blocks_total{reason="shrink",tier="dram"}'
    history += [(T0 + i, {**agent_samples(i - 47, start_s=2000.0, speed=30), late: 40.0}) for i in range(200, 320)]
    write(SOURCE, history)
    raw = total(RAW_S, T0, T0 + 310)
    run_roll_up(T0 + 320)
    assert_same(total(TEN_S, T0, T0 + 310), raw)
    assert raw.increase(BY_NAME["evictions_per_s"].expression.selectors[0]) == pytest.approx(
        2 * 46 + 2 * (309 - 47) + 40
    )
    answer = query([BY_NAME["get_bytes_per_s"]], Source.objects.all(), T0, T0 + 300, 10)
    assert answer.plan.level_s == TEN_S
    values = answer.values["get_bytes_per_s"]
    assert values[10:13] == [None] * 3, "a gap is a gap"
    assert values[13] == pytest.approx(30 * 8192), "what happened in the gap is spread over it, no spike"


chunk = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 500), st.booleans()), min_size=2, max_size=60)


@given(chunk)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_roll_up_of_any_history_equals_raw_and_is_never_negative(history: list[tuple[int, int, bool]]) -> None:
    Rollup.objects.all().delete()
    Tick.objects.all().delete()
    at_s, asked, rows = T0, 0, []
    for pause_s, amount, reset in history:
        at_s += pause_s
        asked = amount if reset else asked + amount
        hits = asked // 2
        rows.append(
            (
                at_s,
                {
                    "kvfabric_agent_prefix_lookup_blocks_total": float(asked),
                    "kvfabric_agent_prefix_hit_blocks_total": float(hits),
                    'vllm:time_to_first_token_seconds_bucket{le="0.5"}': float(hits),
                    'vllm:time_to_first_token_seconds_bucket{le="+Inf"}': float(asked),
                    'kvfabric_agent_stored_bytes{tier="dram"}': float(amount),
                },
            )
        )
    write(SOURCE, rows)
    end_s = (at_s // TEN_S) * TEN_S
    raw = total(RAW_S, T0, end_s)
    run_roll_up(at_s)
    assert_same(total(TEN_S, T0, end_s), raw)
    assert all(value >= 0 for value in raw.increases.values())
    assert all(value >= 0 for bounds in raw.buckets.values() for value in bounds.values())


def test_roll_up_last_bucket_waits_for_a_later_tick_or_long_silence() -> None:
    write(SOURCE, [(T0 + i, agent_samples(i)) for i in range(15)])
    assert run_roll_up(T0 + 60) == 1
    assert run_roll_up(T0 + 15 + SETTLED_AFTER_S + 2 * FIVE_MIN_S) == 2
    assert set(Rollup.objects.values_list("level_s", "at_s")) == {(10, T0), (10, T0 + 10), (300, T0)}


def test_roll_up_two_workers_at_once_write_each_bucket_once() -> None:
    write(SOURCE, [(T0 + i, agent_samples(i)) for i in range(60)])
    run_roll_up(T0 + 60)
    before = list(Rollup.objects.order_by("pk").values_list("level_s", "at_s", "covered_s"))
    Rollup.objects.filter(at_s=T0 + 20).update(covered_s=-1)  # what the other worker has written is not touched
    Rollup.objects.filter(at_s__gt=T0 + 20).delete()
    run_roll_up(T0 + 60)
    after = list(Rollup.objects.order_by("at_s").values_list("level_s", "at_s", "covered_s"))
    assert len(after) == len(before)
    assert (10, T0 + 20, -1.0) in after


def test_roll_up_out_of_time_stops_between_batches_and_goes_on_next_time() -> None:
    write(SOURCE, [(T0 + 10 * i, agent_samples(i)) for i in range(3 * BATCH_BUCKETS)])
    ticks = iter(range(1000))
    report = roll_up(now_s=T0 + 9999, retention=FOR_EVER, budget_s=0.5, monotonic_s=lambda: float(next(ticks)))
    assert not report.finished
    assert report.buckets == BATCH_BUCKETS
    assert run_roll_up(T0 + 9999) > BATCH_BUCKETS


def test_purge_drops_what_had_its_time_and_keeps_ticks_that_are_not_rolled_up() -> None:
    write(SOURCE, [(T0 + i, agent_samples(i)) for i in range(100)])
    keep = Retention(raw_s=60, ten_s=1000, five_min_s=10_000)
    roll_up(now_s=T0 + 100, retention=keep, budget_s=60)
    assert Tick.objects.order_by("at_ms").values_list("at_ms", flat=True)[0] == (T0 + 40) * 1000
    roll_up(now_s=T0 + 10_000, retention=keep, budget_s=60)
    assert Rollup.objects.filter(level_s=TEN_S).count() == 0
    assert Rollup.objects.filter(level_s=FIVE_MIN_S).count() == 1
    roll_up(now_s=T0 + 20_000, retention=keep, budget_s=60)
    assert Rollup.objects.count() == 0


def test_purge_ticks_no_roll_up_took_live_a_day_longer_and_no_more() -> None:
    write(SOURCE, [(T0, agent_samples(0))])
    keep = Retention(raw_s=60, ten_s=1e9, five_min_s=1e9)
    roll_up(now_s=T0 + 600, retention=keep, budget_s=60)
    assert Tick.objects.count() == 1
    roll_up(now_s=T0 + RAW_GRACE_S + 120, retention=keep, budget_s=0.0)
    assert Tick.objects.count() == 0


def test_unreadable_rows_are_gaps_not_the_end_of_everything() -> None:
    write(SOURCE, [(T0 + i, agent_samples(i)) for i in range(60)])
    Tick.objects.filter(at_ms=(T0 + 25) * 1000).update(values=b"garbage")
    run_roll_up(T0 + 60)
    Rollup.objects.filter(at_s=T0 + 40).update(data=b"garbage")
    answer = query([BY_NAME["get_bytes_per_s"]], Source.objects.all(), T0, T0 + 50, 10)
    values = answer.values["get_bytes_per_s"]
    assert values[:4] == pytest.approx([10 * 8192] * 4)
    assert values[4] is None


def test_query_ratio_is_sums_over_sums_not_a_mean_of_ratios() -> None:
    busy = {"kvfabric_agent_prefix_lookup_blocks_total": 1000.0, "kvfabric_agent_prefix_hit_blocks_total": 900.0}
    idle = {"kvfabric_agent_prefix_lookup_blocks_total": 10.0, "kvfabric_agent_prefix_hit_blocks_total": 0.0}
    zero = dict.fromkeys(busy, 0.0)
    write(SourceKey("agent:a", "a", "agent"), [(T0, zero), (T0 + 1, busy)])
    write(SourceKey("agent:b", "b", "agent"), [(T0, zero), (T0 + 1, idle)])
    answer = query([BY_NAME["prefix_hit_ratio_blocks"]], Source.objects.all(), T0, T0 + 2, 1)
    assert answer.values["prefix_hit_ratio_blocks"] == [None, pytest.approx(900 / 1010)]


def test_query_at_every_step_gives_the_same_average() -> None:
    write(SOURCE, [(T0 + i, agent_samples(i)) for i in range(1201)])
    run_roll_up(T0 + 1201)
    for step in (1, 2, 10, 60, 300):
        answer = query(
            [BY_NAME["get_bytes_per_s"], BY_NAME["stored_bytes_flash"]], Source.objects.all(), T0, T0 + 1200, step
        )
        assert answer.plan.level_s == {1: 1, 2: 1, 10: 10, 60: 10, 300: 300}[step]
        assert len(answer.at_s) == 1200 // step
        known = [value for value in answer.values["get_bytes_per_s"] if value is not None]
        assert known == pytest.approx([10 * 8192] * len(known))
        assert answer.values["stored_bytes_flash"][-1] == 2e6


def test_query_without_data_is_null_never_zero() -> None:
    write(SOURCE, [(T0, agent_samples(0))])
    answer = query(KPIS, Source.objects.all(), T0, T0 + 60, 10)
    assert answer.values["ttft_p99_s"] == [None] * 6
    assert answer.values["get_bytes_per_s"] == [None] * 6
    assert answer.values["stored_bytes_dram"] == [1e6] + [None] * 5


def test_over_window_raw_counts_exactly_the_pairs_that_end_in_it() -> None:
    write(SOURCE, [(T0 + i, agent_samples(i)) for i in range(100)])
    found = over_window([BY_NAME["prefix_hit_ratio_blocks"]], Source.objects.all(), T0 + 10, T0 + 50)
    assert found == {"prefix_hit_ratio_blocks": pytest.approx(0.5)}
    assert over_window([BY_NAME["prefix_hit_ratio_blocks"]], Source.objects.none(), T0, T0 + 1) == {
        "prefix_hit_ratio_blocks": None
    }
    with pytest.raises(ValueError, match="end must lie after start"):
        over_window([BY_NAME["prefix_hit_ratio_blocks"]], Source.objects.all(), T0, T0)


def test_a_tick_of_an_agent_is_small() -> None:
    write(SOURCE, [(T0 + i, agent_samples(i)) for i in range(601)])
    run_roll_up(T0 + 601)
    samples = 600 * len(agent_samples(0))
    raw = sum(len(bytes(values)) for values in Tick.objects.values_list("values", flat=True))
    rolled = sum(len(bytes(data)) for data in Rollup.objects.filter(level_s=TEN_S).values_list("data", flat=True))
    assert raw / samples < 9
    assert rolled / samples < 4
    assert math.isfinite(raw)
