"""Owns the RESP commands: what each takes, what it does with the store, what it answers."""

from agent.resp.commands.dispatch import execute, is_write

__all__ = ["execute", "is_write"]
