"""First in, first out."""

from kvcache.eviction.linked import LinkedOrder


class FifoOrder(LinkedOrder):
    """The key written first leaves first; a use changes nothing."""

    def touch(self, key: bytes) -> None:
        if key not in self:
            raise KeyError(key)
