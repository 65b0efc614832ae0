"""Writes histories into the store the way the scraper does."""

from collections.abc import Iterable, Mapping
from math import nan

from telemetry.kpis import CATALOG
from telemetry.models import Source
from telemetry.series.codec import encode_tick, layout_digest
from telemetry.series.levels import Retention
from telemetry.series.store import LayoutKey, SourceKey, TickLog, TickRow

T0 = 1_800_000_000
"""On a 5 min boundary."""
FOR_EVER = Retention(1e9, 1e9, 1e9)

Samples = Mapping[str, float]


def write(source: SourceKey, history: Iterable[tuple[float, Samples]]) -> Source:
    """Store one tick for each (time, {series text: value}); the layout only grows, as the scraper's does."""
    index: dict[str, int] = {}
    rows = []
    for at_s, samples in history:
        for text in samples:
            assert CATALOG.from_text(text) is not None, text
            index.setdefault(text, len(index))
        layout = LayoutKey(layout_digest(index), tuple(index))
        rows.append(TickRow(source, round(at_s * 1000), layout, encode_tick([samples.get(t, nan) for t in index])))
    TickLog().append(rows)
    return Source.objects.get(key=source.key)


def agent_samples(second: int, *, start_s: float = 1000.0, speed: int = 10) -> Samples:
    """What an agent exposes that was asked `speed` blocks a second for `second` seconds: 60 % hits, half from DRAM."""
    asked = float(speed * second)
    return {
        "kvfabric_agent_start_time_seconds": start_s,
        'kvfabric_agent_lookup_blocks_total{result="dram"}': 0.3 * asked,
        'kvfabric_agent_lookup_blocks_total{result="flash"}': 0.3 * asked,
        'kvfabric_agent_lookup_blocks_total{result="miss"}': 0.4 * asked,
        "kvfabric_agent_prefix_lookup_blocks_total": asked,
        "kvfabric_agent_prefix_hit_blocks_total": 0.5 * asked,
        'kvfabric_agent_get_bytes_total{tier="dram"}': 4096 * asked,
        'kvfabric_agent_get_bytes_total{tier="flash"}': 4096 * asked,
        "kvfabric_agent_set_bytes_total": 1000 * asked,
        'kvfabric_agent_evicted_blocks_total{reason="evict",tier="flash"}': 2.0 * second,
        'kvfabric_agent_evicted_blocks_total{reason="delete",tier="flash"}': 7.0 * second,
        'kvfabric_agent_stored_bytes{tier="dram"}': 1e6 + second,
        'kvfabric_agent_stored_bytes{tier="flash"}': 2e6,
    }
