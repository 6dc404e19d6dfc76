"""The contents of an edition, as far as its writer needs them.

A message that several sessions wait for is stored once in Redis, until the last one has it. Redis
keeps no reference counts: the only writer tracks which entries name a message, so every change is
absolute and may be written twice. The names of sessions and topics are tracked to detect losses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.core.journal import MessageQueued
from broker.core.message import Message
from broker.durability.records.message_bytes import entry_naming, entry_with, message_to_bytes

if TYPE_CHECKING:
    from broker.durability.records.changes import Changes

# A smaller message is cheaper to repeat in each entry than to store separately.
LEAST_BYTES: Final = 256


class SharedMessages:
    """Tracks which entry of which session names which message."""

    __slots__ = ("_last", "_names", "_owed")

    def __init__(self) -> None:
        self._last = 0
        # Number of the message by client and position.
        self._names: dict[str, dict[int, int]] = {}
        self._owed: Counter[int] = Counter()

    def __len__(self) -> int:
        """Return the number of messages that sessions wait for."""
        return len(self._owed)

    def __contains__(self, number: int) -> bool:
        """Return whether a session waits for the message."""
        return number in self._owed

    def new_number(self) -> int:
        """Return an unused message number."""
        self._last += 1
        return self._last

    def number_of(self, client_id: str, position: int) -> int | None:
        """Return the number of the message that an entry names."""
        names = self._names.get(client_id)
        return None if names is None else names.get(position)

    def note(self, client_id: str, position: int, number: int) -> None:
        """Record that an entry names a message."""
        self._names.setdefault(client_id, {})[position] = number
        self._owed[number] += 1
        self._last = max(self._last, number)

    def let_go(self, client_id: str, position: int) -> int | None:
        """Remove an entry; return its message when no other entry names it."""
        names = self._names.get(client_id)
        number = None if names is None else names.pop(position, None)
        if names is not None and not names:
            del self._names[client_id]
        return None if number is None else self._owe_less(number)

    def let_all_go(self, client_id: str) -> set[int]:
        """Remove a session; return the messages that no other session waits for."""
        numbers = self._names.pop(client_id, {}).values()
        return {number for number in numbers if self._owe_less(number) is not None}

    def _owe_less(self, number: int) -> int | None:
        self._owed[number] -= 1
        if self._owed[number]:
            return None
        del self._owed[number]
        return number


class StoredNames:
    """The clients that have a stored session, and the topics that have a retained message."""

    __slots__ = ("_next", "clients", "topics")

    def __init__(self) -> None:
        self.clients: set[str] = set()
        self.topics: set[str] = set()
        self._next: Iterator[str] = iter(())

    def some_clients(self, count: int) -> list[str]:
        """Return the next ``count`` clients, round-robin."""
        found = list(islice(self._next, count))
        if len(found) < count:
            self._next = iter(list(self.clients))
        return [client_id for client_id in found if client_id in self.clients]


class QueueEntryEncoder:
    """Finds messages by identity: all receivers of one PUBLISH share the object."""

    __slots__ = ("_numbers", "_packed", "_receivers", "_shared", "_shares_all", "stored")

    def __init__(self, shared: SharedMessages, *, shares_all: bool = False) -> None:
        """``shares_all``: store all separately, since the number of receivers is not known yet."""
        self._shared = shared
        self._shares_all = shares_all
        self._receivers: Counter[int] = Counter()
        # By identity; the messages are referenced here, so that their ids are not reused.
        self._packed: dict[int, tuple[Message, bytes]] = {}
        self._numbers: dict[int, tuple[Message, int]] = {}
        # Shared messages to be stored with this step.
        self.stored: dict[int, bytes] = {}

    def begin_step(self, changes: Changes) -> None:
        """Count the receiving sessions of each large message."""
        self._packed.clear()
        self.stored = {}
        if self._shares_all:
            return
        self._numbers.clear()
        self._receivers = Counter(
            id(entry.message)
            for session in changes.sessions.values()
            for entry in session.queue.values()
            if isinstance(entry, MessageQueued) and entry.message.size >= LEAST_BYTES
        )

    def entry(self, record: MessageQueued) -> bytes:
        """Return the entry of a queued message."""
        message = record.message
        identity = id(message)
        packed = self._packed.get(identity)
        if packed is None:
            packed = self._packed[identity] = (message, message_to_bytes(message))
        # A repeated step has recorded its entries before.
        number = self._shared.number_of(record.client_id, record.position)
        if number is None and self._is_shared(message):
            number = self._number(message)
            if number not in self._shared or not self._shares_all:
                self.stored[number] = packed[1]
            self._shared.note(record.client_id, record.position, number)
        elif number is not None:
            self.stored[number] = packed[1]
        return entry_with(record, packed[1]) if number is None else entry_naming(record, number)

    def _number(self, message: Message) -> int:
        known = self._numbers.get(id(message))
        if known is None:
            known = self._numbers[id(message)] = (message, self._shared.new_number())
        return known[1]

    def _is_shared(self, message: Message) -> bool:
        if self._shares_all:
            return message.size >= LEAST_BYTES
        return self._receivers[id(message)] > 1
