"""Puts the agent together: settings, store, RESP door, management door; starts them and ends them cleanly."""

import asyncio
import errno
import gc
import logging
import resource
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from agent.config import AgentConfig, ConfigError, load_config, write_private_file
from agent.engines.base import EngineError
from agent.engines.dram import MemoryPool
from agent.engines.flash import FlashEngine
from agent.engines.io_pool import IoPool
from agent.manage.run import run_manage
from agent.resp.commands import execute
from agent.resp.server import RespServer
from agent.runtime import AgentRuntime
from agent.tiers import TieredStore
from kvcache.policy import ResolvedPolicy, TierLimits

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_SETTINGS = 2
PASSWORD_FILE = "resp_password"  # noqa: S105
PASSWORD_BYTES = 32
SPARE_FILES = 128
GC_THRESHOLDS = (50_000, 20, 50)

logger = logging.getLogger("agent")


def main() -> int:
    """Run the agent until SIGTERM or SIGINT; return the exit code (2: a setting or the machine must change first)."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        config = load_config()
        _configure_logging(config.log_level)
        agent = Agent(config)
    except (ConfigError, EngineError) as error:
        print(f"agent: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_SETTINGS
    return agent.run(stop)


class Agent:
    """One storage agent: made of its parts by the constructor, at work between `start` and `stop`."""

    def __init__(self, config: AgentConfig) -> None:
        """Claim everything that may be missing or taken: directory, password, flash file, port.

        Raises:
            ConfigError, EngineError: one line for the operator.
        """
        config.check_doors()
        _make_state_dir(config.state_dir)
        _allow_files(config.max_connections + SPARE_FILES)
        password = load_password(config)
        self.config = config
        self.runtime = AgentRuntime(config, self._make_store)
        try:
            self.server = RespServer(config, self.store, password, execute)
        except OSError as error:
            raise ConfigError(_door_problem(config, error)) from None
        self._manage = ManageThread(self.runtime)

    def run(self, stop: threading.Event) -> int:
        """Serve until `stop` is set or the management side fails; return the exit code."""
        refused: ConfigError | None = None
        try:
            self.start(on_failure=stop.set)
            stop.wait()
        except ConfigError as error:
            refused = error
        finally:
            self.stop()
        if refused is not None:
            print(f"agent: {refused}", file=sys.stderr)  # noqa: T201
            return EXIT_SETTINGS
        return EXIT_FAILED if self._manage.failed else EXIT_OK

    def start(self, on_failure: Callable[[], None]) -> None:
        """Bring back what flash holds, then open both doors.

        Raises:
            ConfigError: the management door cannot be opened.
        """
        blocks = self.store.start(self.config.io_threads, self.config.sweep_interval_s)
        logger.info("flash holds %d blocks (%s I/O)", blocks, "direct" if self._engine.direct else "buffered")
        # What is stored holds no cycles: collecting seldom costs nothing and saves up to a third of a small command.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        self._manage.start(on_failure)
        self.server.start()
        self.runtime.set_ready()
        logger.info("serving blocks on %s port %d", self.config.resp_host, self.server.port)

    def stop(self) -> None:
        """Finish replies that are under way and what is on its way to flash, then let go of everything."""
        self.runtime.set_ready("draining")
        self.server.stop(self.config.drain_timeout_s)
        self._manage.stop()
        self.store.close()
        self.server.release()
        logger.info("stopped")

    @property
    def manage_port(self) -> int | None:
        """Port of the management door once it is open."""
        return self._manage.port

    def _make_store(self, policy: ResolvedPolicy) -> TieredStore:
        config = self.config
        limits = TierLimits(int(config.dram_limit_bytes), int(config.flash_limit_bytes))
        self._engine = FlashEngine(config.flash_path, limits.flash_bytes, int(config.flash_slot_bytes), config.flash_io)
        self.store = TieredStore(
            policy=policy,
            limits=limits,
            engine=self._engine,
            pool=MemoryPool(limits.dram_bytes + int(config.inflight_limit_bytes)),
            io=IoPool(config.io_threads),
            verify_dram=config.verify_dram,
        )
        return self.store


class ManageThread:
    """The management side on a thread of its own, with its own event loop."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self.port: int | None = None
        self.failed = False
        self._runtime = runtime
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._opened = threading.Event()
        self._error: ConfigError | None = None
        self._thread: threading.Thread | None = None

    def start(self, on_failure: Callable[[], None]) -> None:
        """Open the door. Raises `ConfigError` when that cannot be done; later failures call `on_failure`."""
        self._thread = threading.Thread(target=self._run, args=(on_failure,), name="manage", daemon=True)
        self._thread.start()
        self._opened.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Close the door."""
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def _run(self, on_failure: Callable[[], None]) -> None:
        try:
            asyncio.run(self._serve())
        except ConfigError as error:
            self._error = error
        except Exception:
            logger.exception("the management side failed")
            self.failed = True
            on_failure()
        finally:
            self._opened.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await run_manage(self._runtime, self._stop, on_listening=self._listening)

    def _listening(self, port: int) -> None:
        self.port = port
        self._opened.set()


def load_password(config: AgentConfig) -> str:
    """Return the password of user `default`: from the settings, else from the state directory, made at first start.

    Raises:
        ConfigError: the file cannot be read or is empty.
    """
    if config.resp_password is not None:
        return config.resp_password.get_secret_value()
    path = config.resp_password_file or config.state_dir / PASSWORD_FILE
    try:
        if config.resp_password_file is None:
            if not path.exists():
                write_private_file(path, secrets.token_urlsafe(PASSWORD_BYTES).encode())
            path.chmod(0o600)
        password = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        text = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"the password file {path} cannot be used ({text}): see KVAGENT_RESP_PASSWORD_FILE") from None
    if not password:
        raise ConfigError(f"the password file {path} is empty: write a password, or delete it to get a new one")
    return password


def _make_state_dir(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise ConfigError(
            f"the state directory {path} cannot be used ({error.strerror}): set KVAGENT_STATE_DIR"
        ) from None


def _allow_files(wanted: int) -> None:
    """Raise the soft limit on open files as far as the hard one allows; past it, newcomers wait to be accepted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < possible:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))


def _door_problem(config: AgentConfig, error: OSError) -> str:
    where = f"port {config.resp_port} of {config.resp_host}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is taken: stop what listens there, or set KVAGENT_RESP_PORT"
    return f"{where} cannot be opened ({error.strerror}): see KVAGENT_RESP_HOST and KVAGENT_RESP_PORT"


def _configure_logging(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
