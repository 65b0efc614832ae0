"""What the replay client counts, under the names of docs/contracts.md; vLLM's where vLLM has one."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from bench.replay.client import ERROR_KINDS

TTFT_BUCKETS_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
"""vLLM's own buckets of `vllm:time_to_first_token_seconds`."""
FETCH_BUCKETS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    15.0,
)
ENERGY_COMPONENTS = ("gpu_prefill", "fetch_dram", "fetch_flash")


class ReplayMetrics:
    """One registry of its own. Attributes are the instruments, already bound to their fixed labels."""

    def __init__(self, *, trace: str, model: str, payload_bytes: int) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._vllm(model)
        self._own()
        info = Gauge(
            "kvfabric_replay_info",
            "What is replayed.",
            ["trace", "model", "payload_bytes"],
            registry=self.registry,
        )
        info.labels(trace, model, str(payload_bytes)).set(1)

    def _vllm(self, model: str) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, ["model_name"], registry=self.registry).labels(model)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, ["model_name"], registry=self.registry).labels(model)

        self.prompt_tokens = counter("vllm:prompt_tokens", "Input tokens of requests played.")
        self.generation_tokens = counter(
            "vllm:generation_tokens", "Output tokens of requests played, as the trace says."
        )
        self.query_tokens = counter("vllm:external_prefix_cache_queries", "Input tokens looked up in the agents.")
        self.hit_tokens = counter("vllm:external_prefix_cache_hits", "Input tokens in the leading run of blocks found.")
        self.running = gauge("vllm:num_requests_running", "Requests in flight.")
        self.waiting = gauge("vllm:num_requests_waiting", "Requests due and not yet in flight.")
        self.ttft_s = Histogram(
            "vllm:time_to_first_token_seconds",
            "Measured fetch of the request's blocks plus modelled prefill of the rest.",
            ["model_name"],
            buckets=TTFT_BUCKETS_S,
            registry=self.registry,
        ).labels(model)

    def _own(self) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"kvfabric_replay_{name}", text, registry=self.registry)

        def labelled(name: str, text: str, label: str, values: tuple[str, ...]) -> dict[str, Counter]:
            family = Counter(f"kvfabric_replay_{name}", text, [label], registry=self.registry)
            return {value: family.labels(value) for value in values}

        self.requests = counter("requests", "Requests played.")
        self.blocks = labelled("blocks", "Blocks asked for.", "result", ("hit", "miss"))
        self.prefix_hit_blocks = counter("prefix_hit_blocks", "Blocks in the leading run of blocks found.")
        self.verified_blocks = counter("verified_blocks", "Hits whose bytes were compared and right.")
        self.wrong_blocks = counter("wrong_blocks", "Hits with a wrong byte or length: counted as misses.")
        self.errors = labelled("errors", "Commands that an agent did not serve.", "kind", ERROR_KINDS)
        self.trace_seconds = counter("trace_seconds", "Trace time played.")
        self.energy_joules = labelled(
            "energy_joules", "Modelled energy of prefill and fetch.", "component", ENERGY_COMPONENTS
        )
        self.energy_saved_joules = counter(
            "energy_saved_joules", "Modelled energy of the prefill that hits made needless."
        )
        self.lag_s = Gauge(
            "kvfabric_replay_pacing_lag_seconds", "How late requests start against the trace.", registry=self.registry
        )
        self.skipped_s = counter("pacing_skipped_seconds", "Lag given up because it grew too large.")
        self.fetch_s = Histogram(
            "kvfabric_replay_fetch_seconds",
            "Measured time from asking for a request's blocks to having them.",
            buckets=FETCH_BUCKETS_S,
            registry=self.registry,
        )

    def exposition(self) -> bytes:
        """Return everything in Prometheus text format."""
        return generate_latest(self.registry)
