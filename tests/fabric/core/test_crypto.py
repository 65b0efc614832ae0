"""Tokens and field encryption."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.crypto import (
    CryptoError,
    decrypt_field,
    encrypt_field,
    field_aad,
    mint_token,
    split_token,
    token_digest,
    verify_token,
)

AAD = field_aad("table", "column", 1)


def test_minted_token_verifies_and_only_its_digest_is_kept() -> None:
    minted = mint_token("kvt1")
    parts = split_token(minted.text, "kvt1")
    assert parts is not None
    key_id, secret = parts
    assert (key_id, len(secret)) == (minted.key_id, 43)
    assert verify_token(secret, minted.digest, minted.pepper_id)
    assert secret not in minted.digest
    assert secret not in repr(minted)


def test_digest_is_hmac_sha256_under_the_numbered_pepper(settings) -> None:
    settings.TOKEN_PEPPERS = {"7": "salt and pepper"}
    assert token_digest("secret", "7") == hmac.new(b"salt and pepper", b"secret", hashlib.sha256).hexdigest()


def test_token_of_an_old_pepper_verifies_while_that_pepper_is_configured(settings) -> None:
    old = mint_token("kvt1")
    settings.TOKEN_PEPPERS = {**settings.TOKEN_PEPPERS, "2": "a newer one"}
    settings.TOKEN_PEPPER_CURRENT = "2"
    secret = old.text.split(".")[1]
    assert mint_token("kvt1").pepper_id == "2"
    assert verify_token(secret, old.digest, old.pepper_id)
    settings.TOKEN_PEPPERS = {"2": "a newer one"}
    assert not verify_token(secret, old.digest, old.pepper_id)


def test_wrong_secret_and_unknown_key_are_both_false() -> None:
    minted = mint_token("kvt1")
    assert not verify_token("x" * 43, minted.digest, minted.pepper_id)
    assert not verify_token(minted.text.split(".")[1], None, None)
    assert not verify_token("", "0" * 64, "no such pepper")


def test_two_tokens_differ_in_both_halves() -> None:
    texts = {mint_token("kvt1", key_id_chars=8).text for _ in range(200)}
    assert len({text.split(".")[0] for text in texts}) == len({text.split(".")[1] for text in texts}) == 200


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kvt1_",
        "kvt1_abcdefgh",
        "kvt1_abcdefgh." + "x" * 42,
        "kvt1_abcdefgh." + "x" * 44,
        "kvt1_ABCDEFGH." + "x" * 43,
        "kvj1_abcdefgh." + "x" * 43,
        "kvt1_abcdefgh." + "x" * 42 + "é",
        " kvt1_abcdefgh." + "x" * 43,
        "kvt1_abcdefgh." + "x" * 43 + "\n",
        "kvt1_abcdefgh." + "x" * 21 + "\x00" + "x" * 21,
    ],
)
def test_text_that_is_no_token_of_this_kind_is_none(text: str) -> None:
    assert split_token(text, "kvt1") is None


@given(st.text(max_size=80))
def test_split_token_never_raises(text: str) -> None:
    assert split_token(text, "kvt1") is None


@given(st.binary(max_size=200))
def test_field_opens_to_what_was_sealed(plaintext: bytes) -> None:
    assert decrypt_field(encrypt_field(plaintext, aad=AAD), aad=AAD) == plaintext


def test_sealing_twice_gives_two_texts_and_neither_shows_the_plaintext() -> None:
    first, second = (encrypt_field(b"correct horse battery", aad=AAD) for _ in range(2))
    assert first != second
    assert "correct" not in first


@pytest.mark.parametrize("aad", [field_aad("table", "column", 2), field_aad("table", "other", 1), ""])
def test_field_moved_to_another_place_does_not_open(aad: str) -> None:
    with pytest.raises(CryptoError):
        decrypt_field(encrypt_field(b"secret", aad=AAD), aad=aad)


def test_every_altered_character_is_noticed() -> None:
    sealed = encrypt_field(b"secret", aad=AAD)
    body = sealed.index(".") + 1
    for index in range(body, len(sealed)):
        changed = "A" if sealed[index] != "A" else "B"
        altered = sealed[:index] + changed + sealed[index + 1 :]
        # The last character of base64 may hold bits that carry nothing; then the bytes are the same.
        if index < len(sealed) - 3:
            with pytest.raises(CryptoError):
                decrypt_field(altered, aad=AAD)


@pytest.mark.parametrize("stored", ["", ".", "1.", "1.AAAA", "9.AAAA", "nonsense", "1.%%%%"])
def test_garbage_in_the_column_is_an_error_that_names_the_place(stored: str) -> None:
    with pytest.raises(CryptoError):
        decrypt_field(stored, aad=AAD)


def test_rotated_key_still_opens_what_the_old_one_sealed(settings) -> None:
    sealed = encrypt_field(b"secret", aad=AAD)
    settings.FIELD_ENCRYPTION_KEYS = {**settings.FIELD_ENCRYPTION_KEYS, "2": "another key"}
    settings.FIELD_ENCRYPTION_CURRENT = "2"
    assert encrypt_field(b"secret", aad=AAD).startswith("2.")
    assert decrypt_field(sealed, aad=AAD) == b"secret"
    settings.FIELD_ENCRYPTION_KEYS = {"2": "another key"}
    with pytest.raises(CryptoError, match="key '1'"):
        decrypt_field(sealed, aad=AAD)
