"""Owns where the bytes of blocks are: carries out with memory and flash what `kvcache.tiering` decides."""

from agent.tiers.blocks import Barrier, BlockRead, Found
from agent.tiers.store import Insertion, TieredStore, WriteOptions, Written

__all__ = ["Barrier", "BlockRead", "Found", "Insertion", "TieredStore", "WriteOptions", "Written"]
