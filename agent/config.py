"""Settings of one storage agent, read from the environment (`KVAGENT_…`), typed and checked before anything starts."""

import ipaddress
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ByteSize, Field, SecretStr, StringConstraints, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PAGE_BYTES = 4096
"""Alignment of everything on flash: logical blocks of NVMe drives are 512 or 4096 bytes, memory pages 4096."""

Size = Annotated[ByteSize, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]


class ConfigError(Exception):
    """The settings cannot hold; the text is one line for the operator: which setting, why, and what would be right."""


class AgentConfig(BaseSettings):
    """Every setting of the agent. Sizes accept a number of bytes or a text such as `256MiB`."""

    model_config = SettingsConfigDict(env_prefix="KVAGENT_", extra="ignore", frozen=True, env_ignore_empty=True)

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")] = "agent"
    state_dir: Path = Path("var/agents/agent")
    """Directory (0700) of everything this agent keeps: key, identity, policy, flash file, password, tokens."""

    resp_host: str = "127.0.0.1"
    resp_port: Port = 6400
    resp_password: SecretStr | None = None
    resp_password_file: Path | None = None
    """File with the password of user `default`; unset: `resp_password` in the state directory, made at first start."""
    data_url: str | None = None
    """Address that clients should use; unset: made of host and port."""

    manage_host: str = "127.0.0.1"
    manage_port: Port = 6401
    manage_url: str | None = None
    """Address at which the control plane reaches the management API; unset: made of host and port."""

    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    """Certificate chain and key (PEM) of both doors. Needed as soon as a door is bound beyond loopback."""

    control_plane_url: str | None = None
    control_plane_ca_file: Path | None = None
    join_token: SecretStr | None = None
    join_token_file: Path | None = None

    dram_limit_bytes: Size = ByteSize(256 << 20)
    flash_limit_bytes: Size = ByteSize(1 << 30)
    flash_file: Path | None = None
    """Backing file of the flash tier; unset: `flash.kvf` in the state directory."""
    flash_slot_bytes: Annotated[ByteSize, Field(ge=2 * PAGE_BYTES, le=64 << 20)] = ByteSize(68 << 10)
    """Slot of the flash file: a header page of 4 KiB and the payload; a longer value takes several slots."""
    flash_io: Literal["auto", "direct", "buffered"] = "auto"
    """`direct` demands O_DIRECT, `auto` falls back to buffered where the file system refuses it."""
    io_threads: Annotated[int, Field(ge=1, le=64)] = 4
    verify_dram: bool = True
    """Check the checksum of a block served from DRAM too, not only of one read from flash."""

    max_value_bytes: Annotated[ByteSize, Field(ge=1, le=512 << 20)] = ByteSize(64 << 20)
    max_key_bytes: Annotated[int, Field(ge=16, le=2048)] = 1024
    max_arguments: Annotated[int, Field(ge=8, le=1 << 20)] = 8192
    """Arguments of one command; an MSET of n blocks has 2 n + 1."""
    max_command_bytes: Annotated[ByteSize, Field(ge=1)] = ByteSize(128 << 20)
    """Sum of one command's arguments."""
    inflight_limit_bytes: Annotated[ByteSize, Field(ge=1 << 20)] = ByteSize(128 << 20)
    """Memory for values on their way in, out or to flash, over all connections and beside the DRAM tier."""
    output_pause_bytes: Annotated[ByteSize, Field(ge=1 << 16)] = ByteSize(8 << 20)
    """Queued output of one connection above which no further command of it is read."""
    max_connections: Annotated[int, Field(ge=1, le=65536)] = 1024

    auth_timeout_s: Annotated[float, Field(gt=0)] = 5.0
    idle_timeout_s: Annotated[float, Field(gt=0)] = 3600.0
    command_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """Longest time for one command to arrive whole, plus a second for each MiB of it."""
    write_stall_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """A connection whose output does not move for this long is closed."""
    drain_timeout_s: Annotated[float, Field(gt=0)] = 5.0
    sweep_interval_s: Annotated[float, Field(gt=0)] = 0.25
    """Time between two looks for expired blocks."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("flash_slot_bytes")
    @classmethod
    def _whole_pages(cls, value: int) -> int:
        if value % PAGE_BYTES:
            raise ValueError(f"must be a multiple of {PAGE_BYTES} bytes, for example 68KiB")
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file belong together: set both or neither")
        if self.resp_password is not None and self.resp_password_file is not None:
            raise ValueError("resp_password and resp_password_file exclude each other: set one")
        if self.join_token is not None and self.join_token_file is not None:
            raise ValueError("join_token and join_token_file exclude each other: set one")
        if self.max_value_bytes > self.max_command_bytes:
            raise ValueError("max_command_bytes must be at least max_value_bytes")
        if self.max_value_bytes > self.inflight_limit_bytes:
            raise ValueError("inflight_limit_bytes must be at least max_value_bytes")
        return self

    @property
    def tls(self) -> bool:
        """Tell whether both doors speak TLS."""
        return self.tls_cert_file is not None

    @property
    def flash_path(self) -> Path:
        """Path of the flash tier's file."""
        return self.flash_file or self.state_dir / "flash.kvf"

    @property
    def advertised_manage_url(self) -> str:
        """URL of the management API as the control plane should use it."""
        return self.manage_url or _url("https" if self.tls else "http", self.manage_host, self.manage_port)

    @property
    def advertised_data_url(self) -> str:
        """URL of the RESP door as clients should use it."""
        return self.data_url or _url("rediss" if self.tls else "redis", self.resp_host, self.resp_port)

    def check_doors(self) -> None:
        """Refuse a door that is open beyond this machine without TLS.

        Raises:
            ConfigError: names the setting and the remedy.
        """
        for door, host in (("RESP", self.resp_host), ("management", self.manage_host)):
            if not self.tls and not is_loopback(host):
                setting = "KVAGENT_RESP_HOST" if door == "RESP" else "KVAGENT_MANAGE_HOST"
                raise ConfigError(
                    f"the {door} door would listen on {host} without TLS: set KVAGENT_TLS_CERT_FILE and "
                    f"KVAGENT_TLS_KEY_FILE, or {setting}=127.0.0.1"
                )


def is_loopback(host: str) -> bool:
    """Tell whether every address that `host` stands for is a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)


def load_config(overrides: Mapping[str, Any] | None = None) -> AgentConfig:
    """Read the settings from the environment; `overrides` win over it.

    Raises:
        ConfigError: one line that names every setting at fault.
    """
    try:
        return AgentConfig(**(overrides or {}))
    except ValidationError as error:
        raise ConfigError("; ".join(_problem(item) for item in error.errors(include_input=False))) from None


def _problem(item: Any) -> str:
    where = "_".join(str(part) for part in item["loc"])
    text = item["msg"].removeprefix("Value error, ")
    return f"KVAGENT_{where.upper()}: {text}" if where else text


def _url(scheme: str, host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{port}"


def write_private_file(path: Path, data: bytes) -> None:
    """Write `data` so that after a crash the file is the old or the new one, readable by its owner alone.

    Temporary file, fsync, rename, fsync of the directory.
    """
    temporary = path.with_name(path.name + ".new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(handle, 0o600)
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
