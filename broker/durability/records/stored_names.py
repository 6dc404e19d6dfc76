"""What an edition of the durable state must hold, by name: so a loss in Redis can be noticed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice


class StoredNames:
    """The clients with a stored session, and the topics with a retained message."""

    __slots__ = ("_next", "clients", "topics")

    def __init__(self) -> None:
        self.clients: set[str] = set()
        self.topics: set[str] = set()
        self._next: Iterator[str] = iter(())

    def some_clients(self, count: int) -> list[str]:
        """Return the next clients in turn; all of them come, in the end."""
        found = list(islice(self._next, count))
        if len(found) < count:
            self._next = iter(list(self.clients))
        return [client_id for client_id in found if client_id in self.clients]
