"""A process that saves records without end, to be killed: says on stdout what is stored.

Every call into a core is imitated by the same set of records: a message for every client, the
same one retained, and its packet identifier. So whatever a kill leaves must show, for every
client and for the rest, the same last call.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

from broker.core.journal import (
    MessageDone,
    MessageQueued,
    PacketReceived,
    PacketReleased,
    Record,
    RetainedSaved,
    SessionSaved,
)
from broker.core.message import Message
from broker.durability.redis_journal import RedisJournal
from broker.ports import JournalLimits

BROKER = "killed"
# Far beyond the end of the test: a dead process must be known by itself.
LIMITS = JournalLimits(lease_seconds=3_600)
CLIENTS = [f"client {number}" for number in range(8)]
PUBLISHER = "publisher"
# Messages that wait at any time.
WAITING = 20


def beginning() -> Iterator[Record]:
    """The sessions."""
    for client_id in (*CLIENTS, PUBLISHER):
        yield SessionSaved(client_id, None, 3_600, None, None)


def call(number: int) -> Iterator[Record]:
    """What one PUBLISH records; every other message is so large that it is kept once."""
    message = Message("t", number.to_bytes(8, "big") * (100 if number % 2 else 1), qos=2)
    for client_id in CLIENTS:
        yield MessageQueued(client_id, number, message, 1, retain=False, keys=("t",))
        if number > WAITING:
            yield MessageDone(client_id, number - WAITING)
    yield RetainedSaved(message)
    yield PacketReceived(PUBLISHER, number)
    if number > WAITING:
        yield PacketReleased(PUBLISHER, number - WAITING)


async def main(url: str) -> None:
    """Go on where the last process was killed."""
    journal = RedisJournal(url, BROKER, LIMITS)
    loaded = await journal.load()
    if not loaded:
        await journal.save(list(beginning()))
    number = max((one.position for one in loaded if isinstance(one, MessageQueued)), default=0)
    while True:
        batch = [record for one in range(number + 1, number + 4) for record in call(one)]
        number += 3
        await journal.save(batch)
        print(number, flush=True)  # noqa: T201 - for the test


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
