"""What an agent reports: its status with every heartbeat, and what its host is."""

from typing import Literal

from pydantic import Field

from agent.protocol.base import PROTOCOL_VERSION, Digest, Message, ShortText
from agent.protocol.desired import Envelope
from agent.protocol.join import Capabilities


class BlockDeviceFact(Message):
    """One disk as sysfs shows it. An absent fact is None, never 0 or an empty text."""

    name: ShortText
    transport: ShortText | None = None
    model: ShortText | None = None
    serial: ShortText | None = None
    firmware: ShortText | None = None
    nqn: ShortText | None = None
    nsid: int | None = Field(default=None, ge=0)
    """Namespace of an NVMe subsystem: several namespaces of one drive share its serial number and NQN."""
    capacity_bytes: int | None = Field(default=None, ge=0)
    logical_block_bytes: int | None = Field(default=None, ge=0)
    rotational: bool | None = None
    temperature_c: float | None = None


class NetworkDeviceFact(Message):
    """One network interface; `kind` tells physical from virtual, `dpu_model` is set where the device is a known DPU."""

    name: ShortText
    kind: Literal["physical", "virtual", "loopback"]
    mac: ShortText | None = None
    speed_mbps: int | None = Field(default=None, ge=0)
    mtu: int | None = Field(default=None, ge=0)
    state: ShortText | None = None
    driver: ShortText | None = None
    pci_vendor: ShortText | None = None
    pci_device: ShortText | None = None
    dpu_model: ShortText | None = None


class HostInventory(Message):
    """What the agent's host is, read without root; `source` says by what means, `observed_at_s` when."""

    source: ShortText
    observed_at_s: float
    hostname: ShortText
    machine_id_hash: ShortText | None = None
    vendor: ShortText | None = None
    product: ShortText | None = None
    serial: ShortText | None = None
    os: ShortText | None = None
    kernel: ShortText | None = None
    architecture: ShortText | None = None
    cpu_model: ShortText | None = None
    cpu_threads: int | None = Field(default=None, ge=0)
    memory_bytes: int | None = Field(default=None, ge=0)
    rapl_domains: list[ShortText] = []
    """Energy counters that this agent can read, such as `package-0` and, inside it, `package-0/core`."""
    rapl_unreadable_domains: list[ShortText] = []
    """Energy counters that exist but that only root may read."""
    block_devices: list[BlockDeviceFact] = []
    network_devices: list[NetworkDeviceFact] = []


class TierUsage(Message):
    """Bytes and blocks of one tier now, against what the policy allows and the agent's own limit."""

    tier: Literal["dram", "flash"]
    stored_bytes: int = Field(ge=0)
    stored_blocks: int = Field(ge=0)
    capacity_bytes: int = Field(ge=0)
    limit_bytes: int = Field(ge=0)


class Condition(Message):
    """Something an operator should know, machine-readable: type, since when, in words."""

    type: ShortText
    status: Literal["true", "false", "unknown"]
    reason: ShortText
    message: str = ""
    since_s: float


class Status(Message):
    """What the agent is and runs."""

    agent_id: ShortText
    version: ShortText
    boot_id: ShortText
    started_at_s: float
    observed_generation: int = Field(ge=0)
    applied_digest: Digest | None = None
    tiers: list[TierUsage] = []
    conditions: list[Condition] = []


class Heartbeat(Message):
    """Sent every `heartbeat_interval_s`; `seq` grows by one each, and a gap makes the server ask for the full state."""

    protocol: Literal["v1"] = PROTOCOL_VERSION
    seq: int = Field(ge=1)
    join_seq: int = Field(ge=1)
    agent_time_s: float
    status: Status
    capabilities: Capabilities | None = None
    inventory: HostInventory | None = None


class HeartbeatReply(Message):
    """The second, independent way a policy reaches an agent: whatever it should run and does not."""

    server_time_s: float
    desired: Envelope | None = None
    send_full: bool = False
    access_token: ShortText | None = None
    access_token_expires_s: float | None = None
