"""What a step changes in the durable state, as records leave it in the end.

Everything since the last step is stored at once, so only the outcome counts: a message that was
queued and acknowledged in between leaves nothing to store. All changes are absolute ("this field
is now so"), therefore they can be repeated when it is not known whether Redis got them.
"""

from __future__ import annotations

from broker.core.journal import MessageQueued
from broker.core.message import Message


class SessionChanges:
    """What changes for one session; None means "not there any more".

    ``fields`` are those of its hash, by name, without the queue. ``queue`` has what is at a
    position: a message, or bytes that stand for it.
    """

    __slots__ = ("fields", "is_new", "is_over", "queue")

    def __init__(self) -> None:
        # Everything of before goes first.
        self.is_over = False
        # Saved: the index must name it.
        self.is_new = False
        self.fields: dict[str, bytes | int | None] = {}
        self.queue: dict[int, MessageQueued | bytes | None] = {}


class Changes:
    """What is to be stored in one step."""

    __slots__ = ("freed", "is_repeated", "records", "retained", "sessions")

    def __init__(self) -> None:
        # At least as many as there are fields to change.
        self.records = 0
        self.sessions: dict[str, SessionChanges] = {}
        self.retained: dict[str, Message | None] = {}
        # Shared messages that nobody waits for any more.
        self.freed: set[int] = set()
        # Redis may have some of it already: then an entry that is over must be deleted there.
        self.is_repeated = False

    def __bool__(self) -> bool:
        """Whether there is something to store."""
        return bool(self.sessions or self.retained or self.freed)

    def is_beyond(self, limit: int) -> bool:
        """Whether more than ``limit`` fields change; counted only when so many records came."""
        if self.records <= limit:
            return False
        fields = sum(len(one.fields) + len(one.queue) + 1 for one in self.sessions.values())
        self.records = fields + len(self.retained) + len(self.freed)
        return self.records > limit

    def put_behind(self, failed: Changes) -> None:
        """Take up changes of before these, of which Redis may have some or not."""
        self.is_repeated = True
        self.records += failed.records
        self.freed |= failed.freed
        self.retained = failed.retained | self.retained
        for client_id, before in failed.sessions.items():
            after = self.of(client_id)
            if after.is_over:
                continue
            after.is_over = before.is_over
            after.is_new = after.is_new or before.is_new
            after.fields = before.fields | after.fields
            after.queue = before.queue | after.queue

    def of(self, client_id: str) -> SessionChanges:
        """The changes of a session, none yet if it has none."""
        found = self.sessions.get(client_id)
        if found is None:
            found = self.sessions[client_id] = SessionChanges()
        return found
