"""The same samples in Debian's Prometheus and in our store: PromQL and our KPIs must give the same numbers."""

import math
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from telemetry.kpis import BY_NAME
from telemetry.models import Source
from telemetry.series import query as query_module
from telemetry.series.query import query
from telemetry.series.rollup import roll_up
from telemetry.series.store import SourceKey
from telemetry.series.text import parse_series, series_text
from tests.support.servers import end, free_port, wait_until
from tests.telemetry.series.history import FOR_EVER, Samples, write

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

SECONDS = 600
STEP_S = 10
BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, math.inf)
PROMQL = {
    "prefix_hit_ratio_blocks": "sum(rate(kvfabric_agent_prefix_hit_blocks_total[10s]))"
    " / sum(rate(kvfabric_agent_prefix_lookup_blocks_total[10s]))",
    "lookup_share_flash": 'sum(rate(kvfabric_agent_lookup_blocks_total{result="flash"}[10s]))'
    " / sum(rate(kvfabric_agent_lookup_blocks_total[10s]))",
    "evictions_per_s": 'sum(rate(kvfabric_agent_evicted_blocks_total{reason=~"evict|shrink"}[10s]))',
    "get_bytes_per_s": "sum(rate(kvfabric_agent_get_bytes_total[10s]))",
    "ttft_p50_s": "histogram_quantile(0.5, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[10s])))",
    "ttft_p95_s": "histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[10s])))",
    "ttft_p99_s": "histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[10s])))",
    "stored_bytes_dram": 'sum(kvfabric_agent_stored_bytes{tier="dram"})',
}


def counters(source: int, chance: random.Random) -> Iterator[Samples]:
    """Yield what one target exposes each second: random work, and now and then everything from zero again."""
    values: dict[str, float] = {}
    for second in range(SECONDS):
        if second and chance.random() < 0.01:
            values.clear()
        asked, slow = chance.randrange(1, 200), chance.random()
        results = {"dram": asked // 3, "flash": asked // 4, "miss": asked - asked // 3 - asked // 4}
        steps: dict[str, float] = {
            "kvfabric_agent_prefix_lookup_blocks_total": asked,
            "kvfabric_agent_prefix_hit_blocks_total": chance.randrange(asked),
            'kvfabric_agent_get_bytes_total{tier="dram"}': 4096 * results["dram"],
            'kvfabric_agent_get_bytes_total{tier="flash"}': 4096 * results["flash"],
            'kvfabric_agent_evicted_blocks_total{reason="evict",tier="flash"}': chance.randrange(9),
            'kvfabric_agent_evicted_blocks_total{reason="shrink",tier="dram"}': chance.randrange(3),
            'kvfabric_agent_evicted_blocks_total{reason="expire",tier="dram"}': chance.randrange(50),
        }
        steps |= {f'kvfabric_agent_lookup_blocks_total{{result="{name}"}}': n for name, n in results.items()}
        seen = [chance.expovariate(1 / (0.05 + slow)) for _ in range(chance.randrange(20))]
        for bound in BOUNDS:
            le = "+Inf" if bound == math.inf else f"{bound:g}"
            steps[f'vllm:time_to_first_token_seconds_bucket{{le="{le}"}}'] = sum(s <= bound for s in seen)
        for text, step in steps.items():
            values[text] = values.get(text, 0.0) + step
        yield {**values, 'kvfabric_agent_stored_bytes{tier="dram"}': 1000.0 * source + asked}


@pytest.fixture
def histories() -> dict[str, list[tuple[float, Samples]]]:
    chance = random.Random(11)
    start = (int(time.time()) - 7200) // 300 * 300
    return {f"t{i}": [(start + s, page) for s, page in enumerate(counters(i, chance))] for i in range(3)}


@pytest.fixture
def prometheus(tmp_path: Path, histories: dict[str, list[tuple[float, Samples]]]) -> Iterator[str]:
    """A Prometheus that holds exactly those samples; yields its address."""
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        pytest.skip("no prometheus on this machine: apt-get install prometheus")
    lines: dict[str, list[str]] = {}
    for instance, history in histories.items():
        for at_s, samples in history:
            for text, value in samples.items():
                name, labels, _ = parse_series(text)
                lines.setdefault(name, []).append(
                    f"{series_text(name, labels | {'instance': instance})} {value} {at_s}"
                )
    body = "".join(f"# TYPE {name} unknown\n" + "\n".join(found) + "\n" for name, found in lines.items())
    (tmp_path / "in.txt").write_text(body + "# EOF\n")
    (tmp_path / "prometheus.yml").write_text("scrape_configs: []\n")
    data = str(tmp_path / "data")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(tmp_path / "in.txt"), data]
    subprocess.run(command, check=True, capture_output=True)
    url = f"http://127.0.0.1:{free_port()}"
    arguments = ["--config.file", str(tmp_path / "prometheus.yml"), "--storage.tsdb.path", data]
    arguments += ["--web.listen-address", url.removeprefix("http://"), "--storage.tsdb.retention.time", "100y"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: _is_ready(url), timeout_s=30, message="prometheus answering")
            yield url
        finally:
            end(process)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def test_every_kind_of_kpi_equals_promql(
    prometheus: str, histories: dict[str, list[tuple[float, Samples]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_module, "retention_from_settings", lambda: FOR_EVER)
    for instance, history in histories.items():
        write(SourceKey(f"agent:{instance}", instance, "agent"), history)
    start = int(next(iter(histories.values()))[0][0])
    kpis = [BY_NAME[name] for name in PROMQL]
    raw = query(kpis, Source.objects.all(), start + 20, start + SECONDS - 20, 15)
    assert raw.plan.level_s == 1
    roll_up(now_s=start + SECONDS, retention=FOR_EVER, budget_s=60)
    ours = query(kpis, Source.objects.all(), start + 20, start + SECONDS - 20, STEP_S)
    assert ours.plan.level_s == 10
    for name, expression in PROMQL.items():
        if name.startswith("stored"):
            expression = f"sum(avg_over_time({expression[4:-1]}[9s]))"  # ours is the mean of the span's scrapes
        # A point of ours holds the pairs that end in [t, t+10); PromQL's [10s] looks back from the last of them.
        parameters = {"query": expression, "start": ours.at_s[0] + 9, "end": ours.at_s[-1] + 9, "step": STEP_S}
        (series,) = httpx.get(f"{prometheus}/api/v1/query_range", params=parameters).json()["data"]["result"]
        theirs = [float(value) for _, value in series["values"]]
        assert len(theirs) == len(ours.at_s) > 50
        assert ours.values[name] == pytest.approx(theirs, rel=1e-9, abs=1e-9), name
