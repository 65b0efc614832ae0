"""Settings: from the environment, typed, refused by name."""

from pathlib import Path

import pytest

from agent.config import AgentConfig, ConfigError, is_loopback, load_config, write_private_file


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KVAGENT_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("KVAGENT_DRAM_LIMIT_BYTES", "3GiB")
    monkeypatch.setenv("KVAGENT_FLASH_LIMIT_BYTES", "1000000")
    monkeypatch.setenv("KVAGENT_JOIN_TOKEN", "")
    config = load_config()
    assert (config.dram_limit_bytes, config.flash_limit_bytes) == (3 << 30, 1_000_000)
    assert config.flash_path == tmp_path / "flash.kvf"
    assert config.join_token is None
    assert config.advertised_data_url == "redis://127.0.0.1:6400"
    assert config.advertised_manage_url == "http://127.0.0.1:6401"


def test_secrets_do_not_show() -> None:
    config = load_config({"resp_password": "hush", "join_token": "kvj1_x.y"})
    assert "hush" not in repr(config)
    assert "kvj1" not in repr(config)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tls_cert_file": "a.pem"}, {"resp_password": "a", "resp_password_file": "b"},
        {"join_token": "a", "join_token_file": "b"}, {"max_value_bytes": "1GiB"},
        {"max_value_bytes": 200 << 20, "max_command_bytes": 300 << 20}, {"max_command_bytes": 1},
        {"flash_slot_bytes": 4096}, {"flash_slot_bytes": 10_000}, {"dram_limit_bytes": -1}, {"name": ""},
        {"max_key_bytes": 4000}, {"auth_timeout_s": 0},
    ],
)  # fmt: skip
def test_what_cannot_hold_is_refused_in_one_line(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(wrong)
    assert "\n" not in str(caught.value)
    assert any(name in str(caught.value).lower() for name in wrong)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
        ("10.0.0.5", False), ("no.such.host.invalid", False),
    ],
)  # fmt: skip
def test_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_doors_beyond_this_machine_need_tls(tmp_path: Path) -> None:
    AgentConfig().check_doors()
    with pytest.raises(ConfigError, match="RESP door"):
        AgentConfig(resp_host="0.0.0.0").check_doors()
    AgentConfig(resp_host="0.0.0.0", tls_cert_file=tmp_path / "c", tls_key_file=tmp_path / "k").check_doors()


def test_ipv6_urls_have_brackets() -> None:
    assert AgentConfig(resp_host="::1", manage_host="::1").advertised_data_url == "redis://[::1]:6400"


def test_private_file_is_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    write_private_file(path, b"new" * 100_000)
    assert path.read_bytes() == b"new" * 100_000
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
