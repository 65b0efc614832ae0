"""Settings from the environment, typed: the one reader of `os.environ`. The README's table comes from this file."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

BASE_DIR = Path(__file__).resolve().parent.parent
MAX_SOCKET_PATH_BYTES = 107
"""Linux keeps the path of a unix socket in 108 bytes, the last of them a zero."""
LONGEST_SOCKET_NAME = "redis.sock"


class SettingsError(Exception):
    """The settings cannot hold: one line for the operator that names the variable and what would be right."""


class Env(BaseSettings):
    """Each field is one environment variable; its description is what an operator reads in the README."""

    model_config = SettingsConfigDict(env_prefix="FABRIC_", extra="ignore", populate_by_name=True)

    home: Path = Field(
        default=BASE_DIR / "var",
        description="Directory of everything that is kept: database, Redis, logs, secrets, agents.",
    )
    host: str = Field(default="127.0.0.1", description="Address the web server binds. Anything but loopback needs TLS.")
    port: int = Field(default=8400, ge=1, le=65535, description="Port of the web server.")
    public_url: str = Field(
        default="", description="Address browsers and agents use, where a proxy stands before us (https://…)."
    )
    tls_cert_file: Path | None = Field(default=None, description="TLS certificate (PEM) of the web server.")
    tls_key_file: Path | None = Field(default=None, description="TLS private key (PEM) of the web server.")
    behind_tls_proxy: bool = Field(
        default=False, description="A proxy that we trust ends TLS and sets X-Forwarded-Proto."
    )
    debug: bool = Field(default=False, description="Django's debug pages. Never outside development.")
    secret_key: SecretStr | None = Field(
        default=None, description="Django's secret key; generated into the home directory when absent."
    )
    secret_key_file: Path | None = Field(
        default=None, description="File that holds the secret key (wins over the generated one)."
    )
    database_url: str = Field(
        default="",
        validation_alias="DATABASE_URL",
        description="postgres://… or sqlite:///…; empty: SQLite in the home directory.",
    )
    redis_url: str = Field(
        default="",
        validation_alias="REDIS_URL",
        description="redis://, rediss:// or redis+socket://…; empty: an embedded Redis on a private socket.",
    )
    time_zone: str = Field(default="UTC", description="Time zone of pages for users who chose none.")
    heartbeat_interval_s: float = Field(default=2.0, gt=0, le=300, description="How often agents report.")
    heartbeat_stale_after_s: float = Field(
        default=8.0, gt=0, description="An agent that is silent for longer is unreachable."
    )
    rollout_lease_s: float = Field(
        default=20.0, gt=0, description="How long a worker may hold a rollout target before another takes it."
    )
    rollout_sweep_interval_s: float = Field(
        default=2.0, gt=0, description="How often the sweeper looks for rollout work without an owner."
    )
    rollout_max_attempts: int = Field(default=30, ge=1, description="Pushes tried at one target before it is failed.")
    rollout_progress_deadline_s: float = Field(
        default=600.0, gt=0, description="A rollout without progress for so long is failed, with reasons."
    )
    scrape_interval_s: float = Field(default=1.0, gt=0, le=60, description="How often targets are scraped.")
    scrape_timeout_s: float = Field(default=0.8, gt=0, description="A scrape that takes longer is a gap.")
    scrape_max_body_bytes: int = Field(
        default=8 << 20, ge=1024, description="A larger exposition is refused and counted."
    )
    scrape_max_series: int = Field(default=5000, ge=1, description="Series per target; more are dropped and counted.")
    retention_raw_s: int = Field(default=3600, ge=60, description="How long 1 s samples are kept.")
    retention_10s_s: int = Field(default=86400, ge=600, description="How long the 10 s roll-up is kept.")
    retention_5m_s: int = Field(default=30 * 86400, ge=3600, description="How long the 5 min roll-up is kept.")
    trace: str = Field(
        default="generator:agentic",
        description="What the replay client plays: generator:agentic, generator:chat or a trace file.",
    )
    replay_speedup: float = Field(default=20.0, gt=0, le=10000, description="Trace seconds played in one second.")
    replay_payload_bytes: int = Field(default=65536, ge=64, le=1 << 26, description="Bytes of one synthetic KV block.")
    agent_dram_limit: str = Field(default="256MiB", description="DRAM which the embedded agent may use.")
    agent_flash_limit: str = Field(default="1GiB", description="Size of the embedded agent's flash file.")
    agent_resp_port: int = Field(default=6400, ge=1, le=65535, description="Data port of the embedded agent (RESP).")
    agent_manage_port: int = Field(default=6401, ge=1, le=65535, description="Management port of the embedded agent.")
    replay_metrics_port: int = Field(default=8401, ge=1, le=65535, description="Metrics port of the replay client.")
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        default_factory=list, description="More host names the web server answers to, separated by commas."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="How much is logged.")
    api_rate_limit: str = Field(default="1200/min", description="Requests of one user or token.")
    tariff_per_kwh: float = Field(default=0.12, ge=0, description="Price of a kWh, for cost figures (declared).")

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def load_env() -> Env:
    """Read and check the environment. Raises `SettingsError`, which names every variable at fault."""
    try:
        return Env()
    except ValidationError as error:
        raise SettingsError("; ".join(_problem(item["loc"], item["msg"]) for item in error.errors())) from None


def socket_dir(run_dir: Path) -> Path:
    """Return where unix sockets stand: `run_dir`, or a directory of its own under /tmp when that path is too long."""
    if len(os.fsencode(run_dir / LONGEST_SOCKET_NAME)) <= MAX_SOCKET_PATH_BYTES:
        return run_dir
    name = hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"kvf-{os.getuid()}-{name}"


def _problem(location: tuple[int | str, ...], message: str) -> str:
    name = str(location[0]) if location else ""
    variable = name if name.isupper() else f"FABRIC_{name.upper()}"
    return f"{variable}: {message.removeprefix('Value error, ')}"
