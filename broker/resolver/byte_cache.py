"""A memory of results that is bounded by their bytes: the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """Not for several threads at once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self.used_bytes = 0

    def get(self, key: str) -> Value | None:
        """What was put under the key, if it is still there."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: str, value: Value, size: int) -> None:
        """Remember a value of ``size`` bytes; one that is larger than all room is not kept."""
        self.discard(key)
        cost = size + len(key)
        if cost > self._max_bytes:
            return
        self._entries[key] = (value, cost)
        self.used_bytes += cost
        while self.used_bytes > self._max_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self.used_bytes -= freed

    def discard(self, key: str) -> None:
        """Forget what is under the key."""
        _, freed = self._entries.pop(key, (None, 0))
        self.used_bytes -= freed

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self.used_bytes = 0

    def __len__(self) -> int:
        """The number of values kept."""
        return len(self._entries)
