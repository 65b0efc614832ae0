"""Owns the built-in flash engine: its file format (`layout`), its file (`device`), free space (`slots`), recovery."""

from agent.engines.flash.engine import FlashEngine
from agent.engines.flash.record import FlashRecord

__all__ = ["FlashEngine", "FlashRecord"]
