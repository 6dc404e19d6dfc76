"""The queue of neighborhoods that wait for the resolver: one queue per client, round-robin.

Owners (user names, or addresses of clients without one) take turns first, then the clients of an
owner. So neither one client with heavy neighborhoods nor one owner with many clients makes others
wait longer than their own turns take.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

# Resolved concurrently: in all, for the broker itself, of one owner, and of one client.
MOST_AT_ONCE: Final = 4
MOST_OF_BROKER: Final = 3
MOST_OF_OWNER: Final = 2
MOST_OF_CLIENT: Final = 1


@dataclass(frozen=True, slots=True)
class Asker:
    """The source of a request: a client, and the user name or address that it counts for."""

    owner: str
    client: str


# The broker itself: for subscriptions in force, after a start and when a generation is loaded.
BROKER: Final = Asker("", "")


class ResolveQueue(Generic[Item]):
    """Returns the next item; ``begin`` and ``end`` are called around the work on each."""

    def __init__(self) -> None:
        # Owners and clients with waiting items; those served longest ago come first.
        self._owners: OrderedDict[str, OrderedDict[str, deque[Item]]] = OrderedDict()
        self._waiting_of_owner: Counter[str] = Counter()
        self._busy_owners: Counter[str] = Counter()
        self._busy_clients: Counter[Asker] = Counter()
        self.waiting = 0
        self.under_way = 0

    def __len__(self) -> int:
        """Return the number of items that wait or are under way."""
        return self.waiting + self.under_way

    def count_of(self, owner: str) -> int:
        """Return the number of an owner's items."""
        return self._waiting_of_owner[owner] + self._busy_owners[owner]

    def add(self, asker: Asker, item: Item) -> None:
        """Put an item at the end of its client's queue."""
        clients = self._owners.setdefault(asker.owner, OrderedDict())
        clients.setdefault(asker.client, deque()).append(item)
        self._waiting_of_owner[asker.owner] += 1
        self.waiting += 1

    def next(self) -> Item | None:
        """Take the next item and count it as in progress; None when none may start."""
        if self.under_way >= MOST_AT_ONCE:
            return None
        for owner, clients in self._owners.items():
            is_broker = owner == BROKER.owner
            if self._busy_owners[owner] >= (MOST_OF_BROKER if is_broker else MOST_OF_OWNER):
                continue
            for client in clients:
                asker = Asker(owner, client)
                if is_broker or self._busy_clients[asker] < MOST_OF_CLIENT:
                    return self._begin(asker, clients)
        return None

    def end(self, asker: Asker) -> None:
        """Count the work on an item of this client as ended."""
        self.under_way -= 1
        _count_down(self._busy_owners, asker.owner)
        _count_down(self._busy_clients, asker)

    def take_all(self) -> list[Item]:
        """Take all waiting items; none of them counts as in progress."""
        found = [
            item for clients in self._owners.values() for one in clients.values() for item in one
        ]
        self._owners.clear()
        self._waiting_of_owner.clear()
        self.waiting = 0
        return found

    def _begin(self, asker: Asker, clients: OrderedDict[str, deque[Item]]) -> Item:
        items = clients[asker.client]
        item = items.popleft()
        clients.move_to_end(asker.client)
        self._owners.move_to_end(asker.owner)
        if not items:
            del clients[asker.client]
        if not clients:
            del self._owners[asker.owner]
        _count_down(self._waiting_of_owner, asker.owner)
        self.waiting -= 1
        self.under_way += 1
        self._busy_owners[asker.owner] += 1
        self._busy_clients[asker] += 1
        return item


Key = TypeVar("Key")


def _count_down(counter: Counter[Key], key: Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
