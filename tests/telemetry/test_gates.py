"""What rollouts ask of telemetry."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.conf import settings
from django.utils.module_loading import import_string

from telemetry.series import query as query_module
from telemetry.series.rollup import roll_up
from telemetry.series.store import SourceKey
from tests.telemetry.series.history import FOR_EVER, T0, write

pytestmark = pytest.mark.django_db


def moment(second: float) -> datetime:
    return datetime.fromtimestamp(T0 + second, UTC)


def lookups(asked: float, hits: float) -> dict[str, float]:
    return {"kvfabric_agent_prefix_lookup_blocks_total": asked, "kvfabric_agent_prefix_hit_blocks_total": hits}


def test_hit_ratio_of_some_agents_over_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_module, "retention_from_settings", lambda: FOR_EVER)
    source = import_string(settings.METRIC_SOURCE)()
    a, b, other = uuid4(), uuid4(), uuid4()
    for agent, rate, share in ((a, 100, 0.9), (b, 10, 0.1), (other, 1000, 0.0)):
        history = [(T0 + i, lookups(rate * i, rate * i * share)) for i in range(61)]
        write(SourceKey(f"agent:{agent}", str(agent), "agent", agent_id=agent), history)
    assert source.hit_ratio([a], moment(10), moment(40)) == pytest.approx(0.9)
    assert source.hit_ratio([a, b], moment(10), moment(40)) == pytest.approx((90 + 1) / 110)
    assert source.hit_ratio([], moment(10), moment(40)) is None
    assert source.hit_ratio([uuid4()], moment(10), moment(40)) is None
    assert source.hit_ratio([a], moment(1000), moment(2000)) is None
    with pytest.raises(ValueError, match="end must lie after start"):
        source.hit_ratio([a], moment(40), moment(10))
    roll_up(now_s=T0 + 61, retention=FOR_EVER, budget_s=60)
    monkeypatch.setattr(query_module, "retention_from_settings", lambda: type(FOR_EVER)(60, 1e9, 1e9))
    assert source.hit_ratio([a, b], moment(0), moment(60)) == pytest.approx((90 + 1) / 110), "from 10 s roll-ups"
