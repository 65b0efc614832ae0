"""Owns the eviction algorithms: each one decides in which order the blocks of one tier leave, and nothing else."""

from collections.abc import Callable

from kvcache.eviction.base import EvictionOrder
from kvcache.eviction.fifo import FifoOrder
from kvcache.eviction.lru import LruOrder

ORDERS: dict[str, Callable[[], EvictionOrder]] = {"lru": LruOrder, "fifo": FifoOrder}
"""Every algorithm by the name it has in a policy document."""


def make_order(name: str) -> EvictionOrder:
    """Return an empty order of the algorithm `name`. Raises `ValueError` naming the known ones."""
    if name not in ORDERS:
        raise ValueError(f"there is no eviction algorithm {name!r}; known: {', '.join(sorted(ORDERS))}")
    return ORDERS[name]()


__all__ = ["ORDERS", "EvictionOrder", "FifoOrder", "LruOrder", "make_order"]
