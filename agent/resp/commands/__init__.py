"""Owns the RESP commands: what each takes, what it does with the store, what it answers."""

from agent.resp.commands.dispatch import execute

__all__ = ["execute"]
