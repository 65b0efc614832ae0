"""Writes of accounts: people, and the API tokens that act for them."""

from fabric.accounts.services.tokens import create_api_token, note_token_use, revoke_api_token
from fabric.accounts.services.users import (
    change_password,
    create_user,
    ensure_admin,
    reset_password,
    update_preferences,
    update_user,
)

__all__ = [
    "change_password",
    "create_api_token",
    "create_user",
    "ensure_admin",
    "note_token_use",
    "reset_password",
    "revoke_api_token",
    "update_preferences",
    "update_user",
]
