"""Settings of the replay client: those it shares with the fabric (`fabric.env`), and its own (`FABRIC_REPLAY_…`)."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from fabric.env import Env
from kvcache.cost import HARDWARE, MODELS

TOKEN_FILE = Path("secrets") / "replay_metrics_token"
MIN_TOKEN_CHARACTERS = 20


class ReplayConfigError(Exception):
    """The settings cannot hold: one line that names the variable and what would be right."""


class ReplayOptions(BaseSettings):
    """The replay client's own settings; docs/replay.md lists them."""

    model_config = SettingsConfigDict(env_prefix="FABRIC_REPLAY_", extra="ignore", env_ignore_empty=True)

    targets: Annotated[list[str], NoDecode] = Field(
        default=["redis://127.0.0.1:6400"], min_length=1, max_length=256, description="Agents' data addresses."
    )
    password_file: Path | None = Field(default=None, description="File with the agents' data password.")
    metrics_token_file: Path | None = Field(default=None, description="File with the bearer token of /metrics.")
    workers: int = Field(default=8, ge=1, le=256, description="Requests in flight at most.")
    seed: int = Field(default=0, ge=0, description="Seed of the generator.")
    model: str = Field(default="llama-3.1-70b", description="Model whose prefill is modelled.")
    hardware: str = Field(default="h100-bf16", description="GPU on which it is modelled.")
    gpus: int = Field(default=4, ge=1, le=65536, description="How many of them serve the model together.")

    @field_validator("targets", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("targets")
    @classmethod
    def _are_redis(cls, value: list[str]) -> list[str]:
        for url in value:
            if not url.startswith(("redis://", "rediss://")):
                raise ValueError("give redis://host:port or rediss://host:port, separated by commas")
        return value

    @field_validator("model")
    @classmethod
    def _known_model(cls, value: str) -> str:
        if value not in MODELS:
            raise ValueError(f"not a known model; give one of {', '.join(MODELS)}")
        return value

    @field_validator("hardware")
    @classmethod
    def _known_hardware(cls, value: str) -> str:
        if value not in HARDWARE:
            raise ValueError(f"not a known GPU; give one of {', '.join(HARDWARE)}")
        return value


def load_options() -> tuple[Env, ReplayOptions]:
    """Read and check the environment. Raises `ReplayConfigError`."""
    try:
        return Env(), ReplayOptions()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        prefix = "FABRIC_REPLAY_" if error.title == ReplayOptions.__name__ else "FABRIC_"
        variable = field if field.isupper() else f"{prefix}{field.upper()}"
        raise ReplayConfigError(f"{variable}: {first['msg'].removeprefix('Value error, ')}") from None


def read_token(path: Path) -> str:
    """Return the bearer token in a file. Raises `ReplayConfigError` when there is none worth the name."""
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise ReplayConfigError(
            f"FABRIC_REPLAY_METRICS_TOKEN_FILE: {path}: {error.strerror}; write a random token there, mode 0600"
        ) from None
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ReplayConfigError(f"{path} holds no token of at least {MIN_TOKEN_CHARACTERS} characters")
    return token
