"""Owns where the bytes of blocks are: carries out with memory and flash what `kvcache.tiering` decides."""

from agent.tiers.blocks import BlockRead, Found
from agent.tiers.store import Conditional, Insertion, TieredStore

__all__ = ["BlockRead", "Conditional", "Found", "Insertion", "TieredStore"]
