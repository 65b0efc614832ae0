"""Owns the tiering decisions: which blocks a cache of DRAM over flash keeps, where, and what must be moved for it.

Decides and never touches bytes: the storage agent carries the moves out, the simulator only counts them.
"""

from kvcache.tiering.cache import TieredCache
from kvcache.tiering.moves import Insert, Lookup, Move, Reason, Tier, Usage

__all__ = ["Insert", "Lookup", "Move", "Reason", "Tier", "TieredCache", "Usage"]
