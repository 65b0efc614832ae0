"""`python -m bench.replay`: plays the trace until it is told to stop."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable

from bench.replay.client import BlockClient
from bench.replay.config import TOKEN_FILE, ReplayConfigError, ReplayOptions, load_options, read_token
from bench.replay.costing import cost_model
from bench.replay.metrics import ReplayMetrics
from bench.replay.pacing import PacedReplay
from bench.replay.payload import PayloadMaker
from bench.replay.player import Player
from bench.replay.server import serve_metrics
from bench.replay.source import Source, SourceError, parse_source
from fabric.env import Env

HOST = "127.0.0.1"
logger = logging.getLogger("bench.replay")


async def run(env: Env, options: ReplayOptions, source: Source, token: str) -> int:
    """Play until SIGTERM or SIGINT (0) or until the trace cannot go on (2: its file, 1: anything else)."""
    metrics = ReplayMetrics(trace=source.name, model=options.model, payload_bytes=env.replay_payload_bytes)
    agents = [
        BlockClient(url, options.password_file, env.replay_payload_bytes, options.workers) for url in options.targets
    ]
    player = Player(
        agents,
        PayloadMaker(env.replay_payload_bytes),
        metrics,
        cost_model(options.model, options.hardware, options.gpus),
        namespace=f"{options.model}/{source.name}/{options.seed}/{env.replay_payload_bytes}",
    )
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Exception | None] = loop.create_future()

    def end(reason: Exception | None) -> None:
        if not ended.done():
            ended.set_result(reason)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, None)
    try:
        runner = await serve_metrics(metrics.exposition, token, HOST, env.replay_metrics_port)
    except OSError as error:
        logger.error("port %d: %s; set FABRIC_REPLAY_METRICS_PORT", env.replay_metrics_port, error.strerror)
        return 2
    replay = PacedReplay(
        player,
        source.requests(),
        metrics,
        speedup=env.replay_speedup,
        workers=options.workers,
        on_end=_from_thread(loop, end),
    )
    replay.start()
    logger.info("playing %s at %g times its pace against %d agent(s)", source.name, env.replay_speedup, len(agents))
    reason = await ended
    await asyncio.to_thread(replay.stop)
    await runner.cleanup()
    for agent in agents:
        agent.close()
    if reason is not None:
        logger.error("%s", reason)
    return 0 if reason is None else 2 if isinstance(reason, SourceError) else 1


def _from_thread(
    loop: asyncio.AbstractEventLoop, end: Callable[[Exception | None], None]
) -> Callable[[Exception | None], None]:
    def call(reason: Exception | None) -> None:
        loop.call_soon_threadsafe(end, reason)

    return call


def main() -> int:
    """Read the settings and play; settings that cannot hold are one line and exit code 2."""
    try:
        env, options = load_options()
        logging.basicConfig(level=env.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        source = parse_source(env.trace, options.seed)
        token = read_token(options.metrics_token_file or env.home / TOKEN_FILE)
    except (ReplayConfigError, SourceError) as error:
        print(error, file=sys.stderr)
        return 2
    return asyncio.run(run(env, options, source, token))


if __name__ == "__main__":
    sys.exit(main())
