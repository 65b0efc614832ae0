"""Who this agent is: its key, the identity that the control plane gave it, its local read token. All files 0600."""

import logging
import os
import secrets
import stat
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.config import ConfigError, write_private_file
from agent.protocol import Base64Key, EnrollReply

KEY_FILE = "agent.key"
IDENTITY_FILE = "identity.json"
METRICS_TOKEN_FILE = "metrics_token"  # noqa: S105
MIN_TOKEN_CHARS = 20

logger = logging.getLogger("agent.manage")


class Identity(BaseModel):
    """What enrolment gave: who we are, how we prove it, and whose signature we believe from now on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_id: str = Field(min_length=1)
    access_token: str = Field(min_length=1, repr=False)
    access_token_expires_s: float
    previous_access_token: str | None = Field(default=None, repr=False)
    """The token before the last renewal, kept until the new one has worked once."""
    control_plane_keys: dict[str, Base64Key] = Field(min_length=1)
    join_seq: int = Field(ge=1)
    heartbeat_interval_s: float = Field(gt=0)

    @classmethod
    def from_reply(cls, reply: EnrollReply) -> Self:
        """Return the identity that an enrolment made."""
        return cls(**reply.model_dump(exclude={"server_time_s"}))

    def rejoined(self, reply: EnrollReply) -> Self:
        """Return this identity with the new access token and join sequence. The pinned keys stay as they are."""
        return self.model_copy(
            update={
                "access_token": reply.access_token,
                "access_token_expires_s": reply.access_token_expires_s,
                "previous_access_token": None,
                "join_seq": reply.join_seq,
                "heartbeat_interval_s": reply.heartbeat_interval_s,
            }
        )

    def renewed(self, access_token: str, expires_s: float) -> Self:
        """Return this identity with a new access token, the old one kept."""
        return self.model_copy(
            update={
                "access_token": access_token,
                "access_token_expires_s": expires_s,
                "previous_access_token": self.access_token,
            }
        )


class IdentityStore:
    """The files of an identity in the state directory."""

    def __init__(self, state_dir: Path) -> None:
        """Make the directory (0700) where it is missing, and close it and its secrets to others where they are open."""
        self._dir = state_dir
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            _restrict(state_dir, 0o700)
        except OSError as error:
            raise ConfigError(f"KVAGENT_STATE_DIR {state_dir} cannot be used: {error.strerror}") from error

    def private_key(self) -> Ed25519PrivateKey:
        """Return the agent's key, made at the first call.

        Raises:
            ConfigError: the file holds something else; it is never replaced, since the key is the agent's identity.
        """
        path = self._dir / KEY_FILE
        pem = _read_private(path)
        if pem is None:
            made = Ed25519PrivateKey.generate()
            pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            pem = _create_private_file(path, pem)
        try:
            key = load_pem_private_key(pem, password=None)
        except ValueError as error:
            raise ConfigError(
                f"{path} is not a private key (PEM): restore it, or move it away to make a new agent"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{path} is not an Ed25519 key: move it away to make a new agent")
        return key

    def load(self) -> Identity | None:
        """Return the stored identity; None when there is none. A damaged file is set aside and reported."""
        path = self._dir / IDENTITY_FILE
        data = _read_private(path)
        if data is None:
            return None
        try:
            return Identity.model_validate_json(data)
        except ValidationError as error:
            fields = ", ".join(str(item["loc"][0]) for item in error.errors() if item["loc"]) or "not JSON"
            logger.error("identity file cannot be used (%s): kept as .bad, a new join token is needed", fields)
            path.replace(path.with_suffix(".bad"))
            return None

    def save(self, identity: Identity) -> None:
        """Store the identity durably: after a crash the file is the old or the new one."""
        write_private_file(self._dir / IDENTITY_FILE, identity.model_dump_json().encode())

    def metrics_token(self) -> str:
        """Return the local bearer token for reading this agent, made at the first call.

        Raises:
            ConfigError: the file holds too short a token to be a secret.
        """
        path = self._dir / METRICS_TOKEN_FILE
        data = _read_private(path) or _create_private_file(path, f"kvm1_{secrets.token_urlsafe(32)}\n".encode())
        token = data.decode(errors="replace").strip()
        if len(token) < MIN_TOKEN_CHARS or not token.isascii():
            raise ConfigError(
                f"{path} must hold {MIN_TOKEN_CHARS} or more ASCII characters; remove it to have one made"
            )
        return token


def _read_private(path: Path) -> bytes | None:
    """Return the file's content and see to it that only its owner may read it; None when there is none."""
    try:
        data = path.read_bytes()
        _restrict(path, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    return data


def _restrict(path: Path, mode: int) -> None:
    if stat.S_IMODE(path.stat().st_mode) & ~mode:
        logger.warning("%s was open to others: mode set to %o", path.name, mode)
        path.chmod(mode)


def _create_private_file(path: Path, data: bytes) -> bytes:
    """Create `path` whole or not at all, unless it exists; return what it holds then."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    write_private_file(temporary, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return path.read_bytes()
    finally:
        temporary.unlink()
    return data
