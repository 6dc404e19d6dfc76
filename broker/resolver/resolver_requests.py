"""Requests to the resolver: who asks, in which order, within which limits, and the answers.

There is one queue per client. Owners (user names, or addresses of clients without one) take turns
first, then the clients of an owner. So neither one client with heavy neighborhoods nor one owner
with many clients makes others wait longer than their own turns take.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from broker.codec.reason_codes import ReasonCode
from schemas.errors import SpapsError, WorldError
from spatial_udfs.entity_table import Int64s

Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")

# Resolved concurrently: in all, for the broker itself, of one owner, and of one client.
MOST_AT_ONCE: Final = 4
MOST_OF_BROKER: Final = 3
MOST_OF_OWNER: Final = 2
MOST_OF_CLIENT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverLimits:
    """Limits on the cost of one neighborhood, and on how many may wait; None: no limit."""

    # Seconds from the start of its turn.
    seconds: float = 10.0
    # Seconds to wait for a process that is restarting.
    away_seconds: float = 10.0
    # Members of all stages, visible or not.
    members: int | None = 100_000
    # Waiting neighborhoods of all clients, and of one user name or address.
    waiting: int | None = 1_000
    waiting_of_owner: int | None = 250


@dataclass(slots=True)
class ResolverCounts:
    """Counts for metrics, over all versions."""

    resolved: int = 0
    reused: int = 0
    refused: int = 0
    # Refused because too many waited, and because the process had to be ended for them.
    crowded: int = 0
    late: int = 0
    # Requests repeated because the process ended, and processes that ended.
    asked_again: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class VersionResolution:
    """The members of a neighborhood on one world version (ascending, distinct).

    ``descriptor`` is JSON, also when the client used the compact notation.
    """

    version: int
    descriptor: str
    neighborhood_hash: str
    peids: Int64s
    warnings: tuple[str, ...] = ()
    # Members of all stages, visible or not, as counted by the limit.
    members_of_stages: int = 0
    # The client wrote references by key, by name or by place: ``descriptor`` has peids for keys and
    # names and the canonical form of places, and is to be kept instead of what was written.
    is_rewritten: bool = False


class NeighborhoodRefusedError(SpapsError):
    """A neighborhood that is refused; the text is the reason string for the client."""

    def __init__(
        self,
        reason: ReasonCode,
        text: str,
        *,
        lacks_references: bool = False,
        is_passing: bool = False,
    ) -> None:
        """Set the reason code of the SUBACK, and whether no reference exists.

        ``is_passing``: the resolver did not answer, so a later attempt may succeed.
        """
        super().__init__(text)
        self.reason = reason
        self.lacks_references = lacks_references
        self.is_passing = is_passing


def away_error() -> NeighborhoodRefusedError:
    """Return the refusal for a resolver that does not answer."""
    return NeighborhoodRefusedError(
        ReasonCode.UNSPECIFIED_ERROR, "the resolver is starting again, try later", is_passing=True
    )


class ResolverGoneError(SpapsError):
    """The resolver process ended before it answered; another process may answer."""


class ResolverLostError(WorldError):
    """The resolver process ended while it loaded the world; another one may fail too."""


class ResolverLateError(SpapsError):
    """The resolver process was ended because this request took too long."""


class ByteCache(Generic[Value]):
    """A cache bounded by bytes, least recently used first out. Not thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self.used_bytes = 0

    def get(self, key: str) -> Value | None:
        """Return the value of the key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: str, value: Value, size: int) -> None:
        """Store a value of ``size`` bytes, unless it is larger than the whole cache."""
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
        """Remove the value of the key."""
        _, freed = self._entries.pop(key, (None, 0))
        self.used_bytes -= freed

    def clear(self) -> None:
        """Remove all values."""
        self._entries.clear()
        self.used_bytes = 0

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._entries)


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


def _count_down(counter: Counter[Key], key: Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
