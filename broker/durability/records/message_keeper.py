"""Where the message of a queue entry is kept: in the entry, or once for several sessions."""

from __future__ import annotations

from collections import Counter

from broker.core.journal import MessageQueued
from broker.core.message import Message
from broker.durability.records.changes import Changes
from broker.durability.records.edition_contents import LEAST_BYTES, SharedMessages
from broker.durability.records.message_bytes import entry_naming, entry_with, message_to_bytes


class MessageKeeper:
    """Knows messages by their identity: receivers of one PUBLISH share the object."""

    __slots__ = ("_numbers", "_packed", "_receivers", "_shared", "_shares_all", "stored")

    def __init__(self, shared: SharedMessages, *, shares_all: bool = False) -> None:
        """``shares_all``: how many will wait for a message is not known yet."""
        self._shared = shared
        self._shares_all = shares_all
        self._receivers: Counter[int] = Counter()
        # By identity; the messages are held, so that no other gets the same.
        self._packed: dict[int, tuple[Message, bytes]] = {}
        self._numbers: dict[int, tuple[Message, int]] = {}
        # Shared messages that Redis is to be given with this step.
        self.stored: dict[int, bytes] = {}

    def begin_step(self, changes: Changes) -> None:
        """Count for how many sessions each large message is."""
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
        """The entry of a queued message."""
        message = record.message
        identity = id(message)
        packed = self._packed.get(identity)
        if packed is None:
            packed = self._packed[identity] = (message, message_to_bytes(message))
        # A step that is repeated has noted its entries before.
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
