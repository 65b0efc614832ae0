"""An agent's side of joining, as `agent.protocol` has it, through the real doors."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.protocol import (
    BlockDeviceFact,
    HostInventory,
    Status,
    TierUsage,
    enroll_payload,
    public_key_text,
    rejoin_payload,
    sign,
)
from fabric.agents.models import Agent
from fabric.agents.services import create_join_token
from fabric.core.actor import SYSTEM
from tests.fabric.people import Door

CAPABILITIES = {
    "engine": "flash",
    "tiers": ["dram", "flash"],
    "evictions": ["lru"],
    "dram_limit_bytes": 1 << 30,
    "flash_limit_bytes": 1 << 34,
    "max_value_bytes": 1 << 26,
}


def join_token(**options: Any) -> str:
    """Return the text of a new join token."""
    return create_join_token(actor=SYSTEM, name="test", **options).text


@dataclass
class Joiner:
    """One machine that wants in: its key, what it says of itself, and the identity that it was given."""

    hostname: str = "gpu-01"
    serial: str | None = None
    address: str = "127.0.0.1"
    manage_url: str = "http://127.0.0.1:6401"
    data_url: str = "redis://127.0.0.1:6400"
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    agent_id: str = ""
    access_token: str = ""
    join_seq: int = 0
    seq: int = 0
    boot_id: str = "boot-1"
    observed_generation: int = 0
    applied_digest: str | None = None
    reply: dict[str, Any] = field(default_factory=dict)

    @property
    def public_key(self) -> str:
        """Return the public key as base64."""
        return public_key_text(self.key)

    @property
    def row(self) -> Agent:
        """Return the agent's row."""
        return Agent.objects.get(pk=UUID(self.agent_id))

    def post(self, path: str, body: Any, token: str | None = None) -> Any:
        """Post to one of the agent's doors from this machine's address."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return Door(REMOTE_ADDR=self.address).post(f"/agent/v1/{path}", body, format="json", headers=headers)

    def challenge(self, token: str, **changes: Any) -> str:
        """Return a nonce."""
        body = {"token_id": token[5:13], "public_key": self.public_key} | changes
        response = self.post("enroll/challenge", body)
        assert response.status_code == 200, response.content
        nonce: str = response.json()["nonce"]
        return nonce

    def request(self, token: str, nonce: str, **changes: Any) -> dict[str, Any]:
        """Return the body of an enrolment, with `changes` made after it was signed."""
        token_id, secret = token[5:13], token[14:]
        proof = enroll_payload(nonce=nonce, token_id=token_id, public_key=self.public_key)
        return {
            "token_id": token_id,
            "token_secret": secret,
            "public_key": self.public_key,
            "nonce": nonce,
            "signature": sign(self.key, proof),
            "hostname": self.hostname,
            "version": "0.1.0",
            "serial": self.serial,
            "manage_url": self.manage_url,
            "data_url": self.data_url,
            "capabilities": CAPABILITIES,
        } | changes

    def try_enroll(self, token: str, **changes: Any) -> Any:
        """Go through both steps; return the response."""
        return self.post("enroll", self.request(token, self.challenge(token), **changes))

    def enroll(self, token: str | None = None, **options: Any) -> "Joiner":
        """Enrol and keep the identity."""
        response = self.try_enroll(token or join_token(**options))
        assert response.status_code == 200, response.content
        self.keep(response.json())
        return self

    def keep(self, reply: dict[str, Any]) -> None:
        """Keep the identity in a reply."""
        self.reply = reply
        self.agent_id, self.access_token, self.join_seq = reply["agent_id"], reply["access_token"], reply["join_seq"]

    def rejoin_request(self, **changes: Any) -> dict[str, Any]:
        """Return the body of a rejoin with a fresh nonce."""
        nonce = self.post("rejoin/challenge", {"agent_id": self.agent_id}).json()["nonce"]
        facts = {"agent_id": self.agent_id, "nonce": nonce, "join_seq": self.join_seq} | changes
        return facts | {"signature": sign(self.key, rejoin_payload(**facts))} | changes

    def try_rejoin(self, **changes: Any) -> Any:
        """Rejoin; return the response."""
        return self.post("rejoin", self.rejoin_request(**changes))

    def rejoin(self) -> None:
        """Rejoin and keep the identity."""
        response = self.try_rejoin()
        assert response.status_code == 200, response.content
        self.keep(response.json())

    def heartbeat(self, **changes: Any) -> dict[str, Any]:
        """Return the next heartbeat."""
        self.seq += 1
        status = Status(
            agent_id=self.agent_id,
            version="0.1.0",
            boot_id=self.boot_id,
            started_at_s=1_700_000_000.0,
            observed_generation=self.observed_generation,
            applied_digest=self.applied_digest,
            tiers=[TierUsage(tier="dram", stored_bytes=10, stored_blocks=1, capacity_bytes=100, limit_bytes=200)],
        ).model_dump(mode="json")
        body = {"seq": self.seq, "join_seq": self.join_seq, "agent_time_s": 1_700_000_000.0, "status": status}
        status_changes = changes.pop("status", {})
        return body | {"status": status | status_changes} | changes

    def beat(self, **changes: Any) -> Any:
        """Send the next heartbeat; return the response."""
        return self.post("heartbeat", self.heartbeat(**changes), self.access_token)


def inventory(**changes: Any) -> dict[str, Any]:
    """Return a host inventory."""
    facts: dict[str, Any] = {
        "source": "sysfs",
        "observed_at_s": 1.0,
        "hostname": "gpu-01",
        "machine_id_hash": "m" * 64,
        "block_devices": [BlockDeviceFact(name="nvme0n1", model="M", serial="S1", capacity_bytes=1 << 40)],
    }
    return HostInventory(**(facts | changes)).model_dump(mode="json")
