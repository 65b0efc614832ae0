"""Puts the management side together and keeps it going beside the data plane."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from agent.discovery import RaplReader
from agent.manage.access import ReadAccess
from agent.manage.client import ControlPlaneClient, check_control_plane_url, wait_or_stop
from agent.manage.enroll import Joiner, for_others
from agent.manage.heartbeat import Heartbeats
from agent.manage.identity import IdentityStore
from agent.manage.listener import listening
from agent.manage.metrics import Exposition
from agent.manage.server import ManageApi
from agent.manage.state import ManageState
from agent.runtime import AgentRuntime

ENERGY_SAMPLE_INTERVAL_S = 30.0
"""Often enough that no RAPL counter wraps twice between two looks, also when nobody scrapes."""
RESTART_DELAY_S = 5.0

logger = logging.getLogger("agent.manage")


async def run_manage(
    runtime: AgentRuntime, stop: asyncio.Event, *, on_listening: Callable[[int], None] | None = None
) -> None:
    """Serve the management door, enrol and report until `stop` is set.

    `on_listening` is called once with the door's port.

    Raises:
        ConfigError: a setting cannot hold (address in use, door open without TLS, http:// to another machine, key file
            damaged); before anything is served.
    """
    config = runtime.config
    url = check_control_plane_url(config.control_plane_url) if config.control_plane_url else None
    store = IdentityStore(config.state_dir)
    key, metrics_token = store.private_key(), store.metrics_token()
    client = ControlPlaneClient(url, config.control_plane_ca_file) if url else None
    state = ManageState(runtime, store)
    rapl = RaplReader()
    api = ManageApi(state, ReadAccess(state, metrics_token), Exposition(state, rapl))
    async with listening(api.app(), config) as port:
        manage_url = for_others(config.model_copy(update={"manage_port": port}).advertised_manage_url)
        logger.info("management door: %s", manage_url)
        if on_listening is not None:
            on_listening(port)
        tasks = [asyncio.create_task(_sample_energy(rapl, stop))]
        if client is not None:
            joiner = Joiner(state, client, key, manage_url)
            loop = _ControlLoop(state, client, joiner)
            tasks.append(asyncio.create_task(_keep_running(loop.run, stop)))
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _ControlLoop:
    """Enrols where there is no identity, reports where there is one, for ever."""

    def __init__(self, state: ManageState, client: ControlPlaneClient, joiner: Joiner) -> None:
        self._state = state
        self._client = client
        self._joiner = joiner
        self._heartbeats = Heartbeats(state, client, joiner)

    async def run(self, stop: asyncio.Event) -> None:
        refused = False
        async with self._client:
            while not stop.is_set():
                if self._state.identity is None or refused:
                    await self._joiner.enroll(stop)
                refused = await self._heartbeats.run(stop)


async def _keep_running(run: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event) -> None:
    """Start `run` again when an error of ours ends it: blocks are served meanwhile."""
    while not stop.is_set():
        try:
            await run(stop)
        except Exception:
            logger.exception("the control loop failed: starting it again in %.0f s", RESTART_DELAY_S)
            await wait_or_stop(stop, RESTART_DELAY_S)


async def _sample_energy(rapl: RaplReader, stop: asyncio.Event) -> None:
    while not await wait_or_stop(stop, ENERGY_SAMPLE_INTERVAL_S):
        with contextlib.suppress(OSError):
            await asyncio.to_thread(rapl.read)
