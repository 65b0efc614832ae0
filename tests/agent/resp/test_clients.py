"""Programs that others wrote: redis-cli, redis-benchmark, hiredis, asyncio redis-py; and TLS."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
import redis
import redis.asyncio

from agent.config import AgentConfig, ConfigError
from agent.resp.transport import tls_context
from tests.agent.harness import KIB, MIB, PASSWORD, Served, payload, served


def program(name: str) -> str:
    found = shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed (Debian: redis-tools)")
    return found


def cli(service: Served, *arguments: str, stdin: str | None = None) -> str:
    command = [program("redis-cli"), "-p", str(service.port), "--no-auth-warning", "-a", PASSWORD, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_redis_cli(service: Served, protocol: str) -> None:
    assert cli(service, protocol, "SET", "k", "hello", "EX", "100") == "OK"
    assert cli(service, protocol, "GET", "k") == "hello"
    assert cli(service, protocol, "--scan") == "k"
    assert "redis_version" in cli(service, protocol, "INFO")
    assert cli(service, protocol, "DBSIZE") == "1"
    assert "unknown command" in cli(service, protocol, "KEYS", "*")
    assert cli(service, protocol, stdin="SET a 1\nGET a\nDEL a\nGET a\n").splitlines() == ["OK", "1", "1"]


@pytest.mark.parametrize("options", [("-d", "100", "-n", "3000", "-P", "16"), ("-d", "262144", "-n", "200", "-P", "4")])
def test_redis_benchmark(service: Served, options: tuple[str, ...]) -> None:
    arguments = ["-p", str(service.port), "-a", PASSWORD, "-t", "set,get", "-c", "8", "-r", "100", "--csv", *options]
    done = subprocess.run(
        [program("redis-benchmark"), *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    assert '"SET"' in done.stdout
    assert '"GET"' in done.stdout
    assert "rror" not in done.stdout
    assert "NOAUTH" not in done.stderr


def test_hiredis_parser_reads_large_replies(service: Served) -> None:
    pytest.importorskip("hiredis")
    client = service.client()
    assert client.connection_pool.connection_kwargs
    blocks = {f"k{n}": payload(n, 700_000) for n in range(20)}
    for key, data in blocks.items():
        client.set(key, data)
    assert client.mget(list(blocks)) == list(blocks.values())


async def test_asyncio_client_with_many_connections(service: Served) -> None:
    """LMCache's Redis connector: a pool of asyncio connections, single commands, no pipeline."""
    pool = redis.asyncio.ConnectionPool(port=service.port, password=PASSWORD, max_connections=150)
    client = redis.asyncio.Redis(connection_pool=pool)

    async def one(number: int) -> None:
        key = f"m@1@0@{number:064x}@bf16"
        await client.set(key + "kv_bytes", payload(number, 100_000))
        await client.set(key + "metadata", b"m" * 28)
        assert await client.exists(key + "metadata")
        assert await client.get(key + "metadata") == b"m" * 28
        assert await client.get(key + "kv_bytes") in (payload(number, 100_000), None)

    await asyncio.gather(*(one(number) for number in range(100)))
    await client.aclose()
    await pool.disconnect()


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost."""
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(
        [
            program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ],
        capture_output=True, check=True,
    )  # fmt: skip
    return cert, key


def test_tls_serves_values_of_every_size(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    settings = {"tls_cert_file": cert, "tls_key_file": key}
    with served(tmp_path, settings=settings, dram=4 * MIB, flash=32 * MIB, inflight=128 * MIB) as service:
        client = service.client(ssl=True, ssl_ca_certs=str(cert), host="localhost")
        blocks = {f"k{size}": payload(size, size) for size in (0, 1, 5000, 16 * KIB, 65_537, 3_000_001)}
        blocks |= {f"f{number}": payload(number, 400_000) for number in range(20)}
        for name, data in blocks.items():
            assert client.set(name, data)
        assert client.mget(list(blocks)) == list(blocks.values())
        with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
            service.client(socket_timeout=2).ping()
        with service.raw(authenticated=False, timeout_s=2) as raw:
            raw.send(b"*1\r\n$4\r\nPING\r\n")
            assert raw.closed()
        assert client.ping()


def test_tls_files_that_cannot_be_used_are_named(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, _ = certificate
    for key in (tmp_path / "missing.pem", cert):
        config = AgentConfig(tls_cert_file=cert, tls_key_file=key)
        with pytest.raises(ConfigError, match="KVAGENT_TLS_KEY_FILE"):
            tls_context(config)
    assert tls_context(AgentConfig()) is None
