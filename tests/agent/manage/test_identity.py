"""Key, identity and token files: made once, 0600, whole after a crash, never silently replaced."""

import os
import stat
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.config import ConfigError
from agent.manage import identity as identity_module
from agent.manage.identity import Identity, IdentityStore
from agent.protocol import EnrollReply, public_key_text


def _reply(**changes: object) -> EnrollReply:
    fields: dict[str, object] = {
        "agent_id": "a-1",
        "access_token": "kva1_aaaa.secret",
        "access_token_expires_s": 100.0,
        "control_plane_keys": {"k1": public_key_text(Ed25519PrivateKey.generate())},
        "join_seq": 1,
        "heartbeat_interval_s": 2.0,
        "server_time_s": 1.0,
    }
    return EnrollReply.model_validate(fields | changes)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = IdentityStore(tmp_path / "state")
        store.private_key()
        store.metrics_token()
        store.save(Identity.from_reply(_reply()))
    finally:
        os.umask(before)
    assert _mode(tmp_path / "state") == 0o700
    found = {path.name: _mode(path) for path in (tmp_path / "state").iterdir()}
    assert found == {"agent.key": 0o600, "metrics_token": 0o600, "identity.json": 0o600}


def test_key_and_token_are_made_once(tmp_path: Path) -> None:
    first = IdentityStore(tmp_path)
    second = IdentityStore(tmp_path)
    assert public_key_text(first.private_key()) == public_key_text(second.private_key())
    assert first.metrics_token() == second.metrics_token()
    assert len(first.metrics_token()) > 40


def test_parallel_starts_agree_on_one_key(tmp_path: Path) -> None:
    found: list[str] = []

    def start() -> None:
        found.append(public_key_text(IdentityStore(tmp_path).private_key()))

    threads = [threading.Thread(target=start) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["agent.key"]


def test_open_files_are_closed_to_others_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = IdentityStore(tmp_path)
    store.private_key()
    (tmp_path / "agent.key").chmod(0o644)
    tmp_path.chmod(0o755)
    IdentityStore(tmp_path).private_key()
    assert _mode(tmp_path / "agent.key") == 0o600
    assert _mode(tmp_path) == 0o700
    assert "agent.key was open to others" in caplog.text


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_damaged_key_stops_the_start_and_stays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent.key").write_bytes(content)
    with pytest.raises(ConfigError, match=r"agent\.key"):
        IdentityStore(tmp_path).private_key()
    assert (tmp_path / "agent.key").read_bytes() == content


def test_identity_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    identity = Identity.from_reply(_reply())
    IdentityStore(tmp_path).save(identity)
    assert IdentityStore(tmp_path).load() == identity


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"agent_id": "a"}', b"\xff\xfe", b"null"])
def test_damaged_identity_is_set_aside(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "identity.json").write_bytes(content)
    assert IdentityStore(tmp_path).load() is None
    assert (tmp_path / "identity.bad").read_bytes() == content
    assert "a new join token is needed" in caplog.text
    assert IdentityStore(tmp_path).load() is None


def test_crash_between_temporary_file_and_rename_keeps_the_old_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = IdentityStore(tmp_path)
    old = Identity.from_reply(_reply())
    store.save(old)

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agent.config.os.replace", crash)
        with pytest.raises(KeyboardInterrupt):
            store.save(old.rejoined(_reply(join_seq=2)))
    assert any(path.name.endswith(".new") for path in tmp_path.iterdir())
    assert all(_mode(path) == 0o600 for path in tmp_path.iterdir())
    assert IdentityStore(tmp_path).load() == old
    store.save(old.rejoined(_reply(join_seq=2)))
    assert (loaded := IdentityStore(tmp_path).load()) is not None
    assert loaded.join_seq == 2


def test_full_disk_keeps_the_old_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = IdentityStore(tmp_path)
    old = Identity.from_reply(_reply())
    store.save(old)
    with monkeypatch.context() as patch:
        patch.setattr("agent.config.os.write", _no_space)
        with pytest.raises(OSError, match="No space"):
            store.save(old.rejoined(_reply(join_seq=2)))
    assert IdentityStore(tmp_path).load() == old


def _no_space(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_rejoin_keeps_the_pinned_keys(tmp_path: Path) -> None:
    identity = Identity.from_reply(_reply())
    changed = identity.rejoined(_reply(join_seq=2, access_token="kva1_bbbb.secret"))
    assert changed.control_plane_keys == identity.control_plane_keys
    assert (changed.join_seq, changed.access_token) == (2, "kva1_bbbb.secret")


def test_secrets_do_not_show_in_repr() -> None:
    identity = Identity.from_reply(_reply()).renewed("kva1_cccc.new", 200.0)
    assert "secret" not in repr(identity)
    assert "kva1" not in repr(identity)


@pytest.mark.parametrize("content", ["short", "\n", "é" * 40])
def test_metrics_token_that_is_no_secret_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "metrics_token").write_text(content)
    with pytest.raises(ConfigError, match="metrics_token"):
        IdentityStore(tmp_path).metrics_token()


def test_state_directory_that_is_a_file_is_a_setting_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(ConfigError, match="KVAGENT_STATE_DIR"):
        IdentityStore(tmp_path / "state")


def test_module_names_the_files_of_the_contract() -> None:
    names = (identity_module.KEY_FILE, identity_module.IDENTITY_FILE, identity_module.METRICS_TOKEN_FILE)
    assert names == ("agent.key", "identity.json", "metrics_token")
