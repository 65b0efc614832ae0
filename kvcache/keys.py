"""Names of KV blocks: our own chained keys, and what can be read out of LMCache's."""

import hashlib
import hmac
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

MAX_KEY_BYTES = 128
"""No key made here is longer, and all are printable ASCII without spaces."""
MAX_FOREIGN_KEY_BYTES = 1024
_PREFIX = b"kvf1"


@dataclass(frozen=True, slots=True)
class Namespace:
    """What blocks must have in common to be shared: the model (with its precision and layout), and the tenant.

    With a `secret`, keys cannot be computed by who does not hold it, so nobody can probe for another's prompts.
    """

    model: str
    tenant: str = ""
    secret: bytes = b""

    @property
    def identity(self) -> bytes:
        """Sixteen bytes that stand for the namespace: HMAC-SHA256 over the parts, each with its length in front."""
        parts = (self.model.encode(), self.tenant.encode())
        message = b"".join(struct.pack("<I", len(part)) + part for part in parts)
        return hmac.digest(self.secret, message, "sha256")[:16]


def chained_block_hashes(namespace: Namespace, token_ids: Sequence[int], block_tokens: int) -> Iterator[bytes]:
    """Yield one 32-byte hash per full block, each over its parent's hash and its own tokens.

    So a hash stands for the whole prefix up to and including its block. A partial last block has none.

    Raises:
        ValueError: `block_tokens` below 1, or a token id outside 0..2**32-1.
    """
    if block_tokens < 1:
        raise ValueError(f"block_tokens is {block_tokens}; give at least 1")
    parent = namespace.identity
    for start in range(0, len(token_ids) - block_tokens + 1, block_tokens):
        try:
            tokens = struct.pack(f"<{block_tokens}I", *token_ids[start : start + block_tokens])
        except struct.error as error:
            raise ValueError(f"tokens {start}..{start + block_tokens - 1}: {error}") from None
        parent = hmac.digest(namespace.secret, parent + tokens, "sha256")
        yield parent


def block_key(namespace: Namespace, block_hash: bytes) -> bytes:
    """Return the key of a block: `kvf1:<namespace, 32 hex>:<hash, 64 hex>`. Raises `ValueError` unless 32 bytes."""
    if len(block_hash) != 32:
        raise ValueError(f"a block hash of {len(block_hash)} bytes; give 32")
    return b":".join((_PREFIX, namespace.identity.hex().encode(), block_hash.hex().encode()))


def trace_block_key(model: str, block_id: int) -> bytes:
    """Return the key under which a replay stores the block that a trace calls `block_id` (0..2**63-1)."""
    if not 0 <= block_id < 1 << 63:
        raise ValueError(f"block id {block_id}; give a whole number from 0 to 2**63-1")
    block_hash = hashlib.sha256(b"trace-block" + block_id.to_bytes(8, "big")).digest()
    return block_key(Namespace(model), block_hash)


class LmcacheForm(StrEnum):
    """Which of LMCache's two programs made a key."""

    IN_PROCESS = "in_process"
    SERVER = "server"


class LmcacheKind(StrEnum):
    """What stands under a key: the bytes of a chunk, its metadata (in process, as a pair), or both in one (server)."""

    KV_BYTES = "kv_bytes"
    METADATA = "metadata"
    CHUNK = "chunk"


@dataclass(frozen=True, slots=True)
class LmcacheKey:
    """What an LMCache key says. `position` is always None: a chunk's hash does not tell where in a prompt it stands.

    `pair` is the key without its kind: the two records of an in-process chunk share it, and live and die together.
    """

    form: LmcacheForm
    model: str
    chunk_hash: str
    kind: LmcacheKind
    pair: bytes
    rank: str
    dtype: str | None = None
    salt: str | None = None
    position: int | None = None


_SERVER = re.compile(
    r"(?P<model>[^@]+)@(?P<rank>[0-9a-f]{8})@(?P<group>[0-9a-f]{1,8})@(?P<hash>[0-9a-f]{8,128})(?:@(?P<salt>.+))?"
)
_IN_PROCESS = re.compile(
    r"(?P<pair>(?P<model>[^@]+)@(?P<rank>[0-9]{1,6}@[0-9]{1,6})@(?P<hash>-?[0-9a-f]{1,128})"
    r"@(?P<dtype>[A-Za-z0-9_.]+?)(?:@[^@%]+%[^@]*?)*)(?P<kind>kv_bytes|metadata)?"
)


def parse_lmcache_key(key: bytes) -> LmcacheKey | None:
    """Return what an LMCache key says, None when it is none.

    In process: `model@world_size@worker_id@chunk_hash@dtype[@tag%value…]` and `kv_bytes` or `metadata` right behind.
    Server: `model@kv_rank@group@hash[@cache_salt]`, the rank in eight hex digits; the salt is the tenant.
    """
    if len(key) > MAX_FOREIGN_KEY_BYTES:
        return None
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    if found := _SERVER.fullmatch(text):
        rank = f"{found['rank']}@{found['group']}"
        return LmcacheKey(
            LmcacheForm.SERVER, found["model"], found["hash"], LmcacheKind.CHUNK, key, rank, salt=found["salt"]
        )
    if found := _IN_PROCESS.fullmatch(text):
        kind = LmcacheKind(found["kind"]) if found["kind"] else LmcacheKind.CHUNK
        pair = found["pair"].encode()
        return LmcacheKey(
            LmcacheForm.IN_PROCESS, found["model"], found["hash"], kind, pair, found["rank"], dtype=found["dtype"]
        )
    return None
