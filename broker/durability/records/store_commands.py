"""Turn changes into Redis commands, for the script that runs them in one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.core.journal import MessageQueued
from broker.durability.records.changes import Changes, SessionChanges
from broker.durability.records.edition_contents import (
    QueueEntryEncoder,
    SharedMessages,
    StoredNames,
)
from broker.durability.records.message_bytes import message_to_bytes
from broker.durability.records.session_fields import QUEUE_FIELD
from redis_link.connection.redis_connection import Word
from schemas.redis_keys import (
    journal_key,
    journal_messages_key,
    journal_retained_key,
    journal_session_key,
    journal_sessions_key,
)

# Lua puts the words of a command on its stack, which is limited to some thousand. An even number
# keeps fields and values together.
MOST_WORDS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Edition:
    """One complete copy of a broker's durable state, and the names of its keys."""

    broker: str
    number: int

    @property
    def journal(self) -> str:
        """The key that all editions share."""
        return journal_key(self.broker)

    @property
    def sessions(self) -> str:
        """The key of the index of sessions."""
        return journal_sessions_key(self.broker, self.number)

    @property
    def retained(self) -> str:
        """The key of the retained messages."""
        return journal_retained_key(self.broker, self.number)

    @property
    def messages(self) -> str:
        """The key of the shared messages."""
        return journal_messages_key(self.broker, self.number)

    @property
    def count_fields(self) -> tuple[str, str]:
        """The journal's fields that hold the numbers of sessions and retained messages."""
        return f"sessions:{self.number}", f"retained:{self.number}"

    def counts(self, names: StoredNames) -> list[Word]:
        """Return these fields and their values."""
        sessions, retained = self.count_fields
        return [sessions, len(names.clients), retained, len(names.topics)]

    def session(self, client_id: str) -> str:
        """Return the key of one session."""
        return journal_session_key(self.broker, self.number, client_id)


class StepCommands:
    """Keys and words in the form that the script takes."""

    __slots__ = ("keys", "words")

    def __init__(self, edition: Edition) -> None:
        self.keys = [edition.journal]
        self.words: list[Word] = []

    def add(self, command: str, key: str, words: list[Word]) -> None:
        """Add a command on one key; split it for very many words, skip it for none."""
        if not words:
            return
        self.keys.append(key)
        number = len(self.keys)
        for start in range(0, len(words), MOST_WORDS):
            part = words[start : start + MOST_WORDS]
            self.words += (command, number, len(part), *part)

    def expect(self, key: str) -> None:
        """Make the step fail unless the key exists; call this before ``add``."""
        self.keys.append(key)
        self.words += ("EXPECT", len(self.keys), 0)

    def unlink(self, key: str) -> None:
        """Remove a key."""
        self.keys.append(key)
        self.words += ("UNLINK", len(self.keys), 0)


class StepWriter:
    """Builds the commands of one step after the other, all for one edition."""

    __slots__ = ("_entries", "edition", "names", "shared")

    def __init__(
        self,
        edition: Edition,
        shared: SharedMessages,
        entries: QueueEntryEncoder,
        names: StoredNames | None = None,
    ) -> None:
        self.edition = edition
        self.shared = shared
        self.names = StoredNames() if names is None else names
        self._entries = entries

    def commands(self, changes: Changes) -> StepCommands:
        """Return the commands that store the changes in the edition."""
        edition = self.edition
        commands = StepCommands(edition)
        # Repeated changes may be new to Redis.
        if not changes.is_repeated:
            self._expect(commands, changes)
        expected = len(commands.words)
        self._entries.begin_step(changes)
        appear: list[Word] = []
        vanish: list[Word] = []
        for client_id, session in changes.sessions.items():
            key = edition.session(client_id)
            if session.is_over:
                commands.unlink(key)
                changes.freed |= self.shared.let_all_go(client_id)
            if session.is_new:
                appear.append(client_id)
                self.names.clients.add(client_id)
            elif session.is_over:
                vanish.append(client_id)
                self.names.clients.discard(client_id)
            self._add_session(commands, key, client_id, session, changes.freed)
        commands.add("SADD", edition.sessions, appear)
        commands.add("SREM", edition.sessions, vanish)
        self._add_retained(commands, changes)
        if appear or vanish or changes.retained:
            commands.add("HSET", edition.journal, edition.counts(self.names))
        kept: list[Word] = []
        for number, packed in self._entries.stored.items():
            kept += (number, packed)
        commands.add("HSET", edition.messages, kept)
        freed: list[Word] = [number for number in changes.freed if number not in self.shared]
        commands.add("HDEL", edition.messages, freed)
        if len(commands.words) == expected:
            commands.words.clear()  # Nothing changes.
        return commands

    def _expect(self, commands: StepCommands, changes: Changes) -> None:
        """Make the step fail when a key that it would write only in part does not exist."""
        names, edition = self.names, self.edition
        for client_id, session in changes.sessions.items():
            if client_id in names.clients and not session.is_over:
                commands.expect(edition.session(client_id))
        if names.clients and changes.sessions:
            commands.expect(edition.sessions)
        if names.topics and changes.retained:
            commands.expect(edition.retained)
        if len(self.shared) and (changes.freed or changes.sessions):
            commands.expect(edition.messages)

    def _add_session(
        self,
        commands: StepCommands,
        key: str,
        client_id: str,
        session: SessionChanges,
        freed: set[int],
    ) -> None:
        there: list[Word] = []
        gone: list[Word] = []
        for field, value in session.fields.items():
            if value is None:
                gone.append(field)
            else:
                there += (field, value)
        for position, entry in session.queue.items():
            field = f"{QUEUE_FIELD}{position}"
            if isinstance(entry, MessageQueued):
                there += (field, self._entries.entry(entry))
                continue
            number = self.shared.let_go(client_id, position)
            if number is not None:
                freed.add(number)
            if entry is None:
                gone.append(field)
            else:
                there += (field, entry)
        commands.add("HSET", key, there)
        if not session.is_over:
            commands.add("HDEL", key, gone)

    def _add_retained(self, commands: StepCommands, changes: Changes) -> None:
        there: list[Word] = []
        gone: list[Word] = []
        for topic, message in changes.retained.items():
            if message is None:
                gone.append(topic)
                self.names.topics.discard(topic)
            else:
                there += (topic, message_to_bytes(message))
                self.names.topics.add(topic)
        commands.add("HSET", self.edition.retained, there)
        commands.add("HDEL", self.edition.retained, gone)
