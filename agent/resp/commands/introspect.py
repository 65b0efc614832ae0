"""Commands about the server: what it is, how it is configured, what it knows."""

import os
import time
from collections.abc import Callable

from agent.resp.commands.base import Command, CommandError, Table, option, word
from agent.resp.commands.session import COMPATIBLE_VERSION
from agent.resp.connection import Connection
from agent.resp.glob import MAX_PATTERN_BYTES, matches
from agent.resp.parser import Argument
from agent.resp.replies import Reply, array_header, bulk, encode, integer, simple
from agent.stats import StatsSnapshot

KNOWN: Table = {}
"""Every command; filled in by `agent.resp.commands.dispatch`."""

MAX_NAMES = 64

Section = Callable[[Connection, StatsSnapshot], dict[str, object]]


def info(connection: Connection, arguments: list[Argument]) -> None:
    """INFO [section ...]"""
    asked = {option(argument).lower() for argument in arguments[1:]} or {"default"}
    snapshot = connection.server.store.stats_snapshot()
    texts = []
    for name, section in _SECTIONS.items():
        if asked & {name, "default", "all", "everything"}:
            lines = [f"{field}:{value}" for field, value in section(connection, snapshot).items()]
            texts.append("\r\n".join([f"# {name.capitalize()}", *lines, ""]))
    connection.reply(bulk("\r\n".join(texts).encode()))


def config(connection: Connection, arguments: list[Argument]) -> None:
    """CONFIG GET pattern [pattern ...]"""
    if option(arguments[1]) != "GET":
        raise CommandError(
            "ERR only CONFIG GET is supported: settings come from the environment, the policy from the control plane"
        )
    patterns = [word(argument).lower() for argument in arguments[2:]]
    if not patterns or len(patterns) > MAX_NAMES or any(len(one) > MAX_PATTERN_BYTES for one in patterns):
        raise CommandError("ERR wrong number of arguments for 'config|get' command")
    settings = _settings(connection)
    chosen: dict[str, Reply] = {
        name: value for name, value in settings.items() if any(matches(pattern, name.encode()) for pattern in patterns)
    }
    connection.reply(encode(chosen, connection.resp3))


def command(connection: Connection, arguments: list[Argument]) -> None:
    """COMMAND [COUNT|LIST|INFO [name ...]|DOCS [name ...]]"""
    what = option(arguments[1]) if len(arguments) > 1 else "INFO"
    names = [option(argument).lower() for argument in arguments[2:]]
    if len(names) > MAX_NAMES:
        raise CommandError("ERR too many names")
    if what == "COUNT" and not names:
        connection.reply(integer(len(KNOWN)))
    elif what == "LIST" and not names:
        connection.reply(encode(list(KNOWN), connection.resp3))
    elif what == "INFO":
        chosen = names or list(KNOWN)
        connection.reply(array_header(len(chosen)) + b"".join(_described(connection, name) for name in chosen))
    elif what == "DOCS":
        docs: dict[str, Reply] = {
            name: {"summary": KNOWN[name].summary, "since": COMPATIBLE_VERSION, "group": KNOWN[name].group}
            for name in (names or KNOWN)
            if name in KNOWN
        }
        connection.reply(encode(docs, connection.resp3))
    else:
        raise CommandError(f"ERR unknown subcommand '{what}'. Try COMMAND DOCS COMMAND")


def cluster(connection: Connection, arguments: list[Argument]) -> None:
    """CLUSTER, READONLY, READWRITE: there is no cluster"""
    raise CommandError("ERR This instance has cluster support disabled")


def _described(connection: Connection, name: str) -> bytes:
    known = KNOWN.get(name)
    if known is None:
        return b"*-1\r\n" if not connection.resp3 else encode(None, True)
    head = [bulk(name.encode()), integer(known.arity), array_header(len(known.flags))]
    flags = [simple(flag) for flag in known.flags]
    places = [integer(place) for place in known.keys]
    # ACL categories, tips, key specifications and subcommands: none.
    return array_header(10) + b"".join([*head, *flags, *places, *[array_header(0)] * 4])


def _settings(connection: Connection) -> dict[str, str]:
    settings = connection.server.config
    tiers = {tier.tier: tier for tier in connection.server.store.tier_snapshots()}
    return {
        "appendonly": "no",
        "bind": settings.resp_host,
        "databases": "1",
        "maxclients": str(settings.max_connections),
        "maxmemory": str(tiers["dram"].capacity_bytes),
        "maxmemory-policy": "allkeys-lru",
        "port": str(connection.server.port),
        "proto-max-bulk-len": str(int(settings.max_value_bytes)),
        "save": "",
        "timeout": str(int(settings.idle_timeout_s)),
    }


def _server(connection: Connection, snapshot: StatsSnapshot) -> dict[str, object]:
    uptime_s = int(time.time() - connection.server.started_s)
    return {
        "redis_version": COMPATIBLE_VERSION,
        "redis_mode": "standalone",
        "server_name": "kvfabric-agent",
        "os": " ".join(os.uname()[::2][:2]),
        "arch_bits": 64,
        "multiplexing_api": "epoll",
        "process_id": os.getpid(),
        "tcp_port": connection.server.port,
        "uptime_in_seconds": uptime_s,
        "uptime_in_days": uptime_s // 86400,
    }


def _clients(connection: Connection, snapshot: StatsSnapshot) -> dict[str, object]:
    return {
        "connected_clients": snapshot.connections,
        "maxclients": connection.server.config.max_connections,
        "blocked_clients": 0,
    }


def _memory(connection: Connection, snapshot: StatsSnapshot) -> dict[str, object]:
    pool = connection.server.store.pool
    tiers = {tier.tier: tier for tier in snapshot.tiers}
    return {
        "used_memory": pool.alive_bytes,
        "used_memory_dataset": tiers["dram"].stored_bytes,
        "allocator_active": pool.mapped_bytes,
        "maxmemory": tiers["dram"].capacity_bytes,
        "maxmemory_policy": "allkeys-lru",
        "flash_used_bytes": tiers["flash"].stored_bytes,
        "flash_capacity_bytes": tiers["flash"].capacity_bytes,
        "flash_pending_bytes": connection.server.store.pending_bytes,
    }


def _persistence(connection: Connection, snapshot: StatsSnapshot) -> dict[str, object]:
    return {"loading": 0, "rdb_bgsave_in_progress": 0, "aof_enabled": 0}


def _stats(connection: Connection, snapshot: StatsSnapshot) -> dict[str, object]:
    hits = snapshot.lookup_blocks
    dropped: dict[str, int] = {}
    for (tier, reason), blocks in snapshot.evicted_blocks.items():
        # A block leaves the store where no lower tier takes it; a copy dropped from DRAM above flash is no eviction.
        if tier == "flash" or reason == "expire":
            dropped[reason] = dropped.get(reason, 0) + blocks
    return {
        "total_connections_received": snapshot.connections_total,
        "total_commands_processed": sum(histogram.count for histogram in snapshot.commands),
        "rejected_connections": snapshot.connections_closed.get("limit", 0),
        "expired_keys": dropped.get("expire", 0),
        "evicted_keys": dropped.get("evict", 0),
        "keyspace_hits": hits.get("dram", 0) + hits.get("flash", 0),
        "keyspace_misses": hits.get("miss", 0),
        "dram_hits": hits.get("dram", 0),
        "flash_hits": hits.get("flash", 0),
        "corrupt_blocks": sum(snapshot.corrupt_blocks.values()),
    }


def _replication(connection: Connection, snapshot: StatsSnapshot) -> dict[str, object]:
    return {"role": "master", "connected_slaves": 0, "master_failover_state": "no-failover", "master_repl_offset": 0}


def _cluster(connection: Connection, snapshot: StatsSnapshot) -> dict[str, object]:
    return {"cluster_enabled": 0}


def _keyspace(connection: Connection, snapshot: StatsSnapshot) -> dict[str, object]:
    count = len(connection.server.store)
    return {"db0": f"keys={count},expires=0,avg_ttl=0"} if count else {}


_SECTIONS: dict[str, Section] = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "cluster": _cluster,
    "keyspace": _keyspace,
}

_FLAGS = ("loading", "stale")
TABLE: Table = {
    "info": Command(info, -1, "Returns facts and counters.", "server", _FLAGS),
    "config": Command(config, -2, "Returns settings.", "server", ("admin", *_FLAGS)),
    "command": Command(command, -1, "Describes the commands.", "server", _FLAGS),
    "cluster": Command(cluster, -2, "There is no cluster.", "cluster", _FLAGS),
    "readonly": Command(cluster, 1, "There is no cluster.", "cluster", _FLAGS),
    "readwrite": Command(cluster, 1, "There is no cluster.", "cluster", _FLAGS),
}
