"""Steps into Redis, each numbered: stored in one piece, in order, and never twice out of order."""

from __future__ import annotations

from broker.durability.lost_keys import is_whole
from broker.durability.ownership import Ownership
from broker.durability.records.changes import Changes
from broker.durability.records.message_keeper import MessageKeeper
from broker.durability.records.shared_messages import SharedMessages
from broker.durability.records.store_commands import Edition, StepCommands, StepWriter
from broker.durability.records.stored_names import StoredNames
from broker.durability.scripts import DONE, STORE, TAKEN
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.redis_connection import RedisReplyError, Word
from redis_link.connection.redis_router import RedisRouter, run_script
from schemas.errors import JournalError, RedisLinkError


class StateLostError(RedisLinkError):
    """Redis has not what we stored: it was emptied, or went back in time."""


class StateTakenError(JournalError):
    """Another process writes the durable state now."""


class StepStore:
    """Where the sequence stands, and the edition that steps go to."""

    def __init__(self, wires: RedisRouter, ownership: Ownership, broker: str) -> None:
        self._wires = wires
        self._ownership = ownership
        self._confirmed = 0
        self._tried = 0
        self.last_edition = 0
        self.writer = writer_for(Edition(broker, 0))

    def begin(self, sequence: int, last_edition: int, writer: StepWriter) -> None:
        """Go on from what Redis has."""
        self._confirmed = self._tried = sequence
        # Of a Redis that was emptied the numbers begin anew, ours do not.
        self.last_edition = max(self.last_edition, last_edition)
        self.writer = writer

    @property
    def has_begun(self) -> bool:
        """Whether Redis knows of steps of ours, or of an earlier process."""
        return self._confirmed > 0

    async def store(self, changes: Changes) -> None:
        """Store what changes; when it raises, Redis may have it or not."""
        commands = self.writer.commands(changes)
        if commands.words:
            await self.run(commands)

    async def run(self, commands: StepCommands) -> None:
        """Run commands as one step."""
        self._tried += 1
        words: list[Word] = [self._ownership.token, self._confirmed, self._tried, *commands.words]
        try:
            self._judge(await run_script(self._wires, STORE, commands.keys, words))
        except RedisReplyError as error:
            # Some commands may have run: the whole state is written anew.
            if is_wrong_type(error):
                raise StateLostError("a key of the durable state has another type now") from error
            raise
        self._confirmed = self._tried

    async def renew_lease(self) -> None:
        """Stay the owner; raises when something is wrong with what Redis has."""
        try:
            self._judge(await self._ownership.renew(self._confirmed))
        except RedisReplyError as error:
            if is_wrong_type(error):
                raise StateLostError("the head of the durable state has another type") from error
            raise

    async def look(self) -> None:
        """Raise StateLostError when keys of the edition are gone; sessions are asked in turn."""
        edition = self.writer.edition
        wire = await self._wires.of_key(edition.journal)
        if not await is_whole(wire, edition, self.writer.names, self.writer.shared):
            raise StateLostError("Redis has lost keys of the durable state")

    def _judge(self, answer: bytes) -> None:
        if answer == DONE:
            return
        if answer == TAKEN:
            raise StateTakenError("another process has taken over the durable state")
        raise StateLostError("Redis does not have the durable state that was stored")


def writer_for(
    edition: Edition,
    shared: SharedMessages | None = None,
    names: StoredNames | None = None,
    *,
    shares_all: bool = False,
) -> StepWriter:
    """A writer of steps to an edition, with what is known about what it holds."""
    known = SharedMessages() if shared is None else shared
    return StepWriter(edition, known, MessageKeeper(known, shares_all=shares_all), names)
