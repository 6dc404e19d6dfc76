"""The hash of one session as records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from broker.core.journal import (
    MessageQueued,
    MessageReleased,
    MessageSent,
    PacketReceived,
    Record,
    SubscriptionSaved,
)
from broker.core.message import RELEASED_MESSAGE, Message
from broker.durability.records.field_names import (
    NEIGHBORHOOD_FIELD,
    PACKET_ID_FIELD,
    PLAIN_FIELD,
    QUEUE_FIELD,
    RECEIVED_FIELD,
    SESSION_FIELD,
    WILL_FIELD,
)
from broker.durability.records.message_bytes import message_from_bytes
from broker.durability.records.queue_entry import read_entry
from broker.durability.records.session_texts import read_session, read_terms
from broker.durability.records.shared_messages import SharedMessages
from schemas.errors import JournalError


def session_records(
    client_id: str,
    fields: Mapping[bytes, bytes],
    messages: Mapping[int, Message],
    shared: SharedMessages,
    lose: Callable[[JournalError], None],
) -> Iterator[Record]:
    """The session, its subscriptions, what it has sent, and what it is owed, in order.

    ``messages`` are those kept once for several sessions; who names one is noted in ``shared``.
    ``lose`` gets what is wrong with a subscription or an entry, which is left out.
    """
    by_kind: dict[str, dict[str, bytes]] = {}
    for field, value in fields.items():
        name = field.decode()
        by_kind.setdefault(name[0], {})[name[1:]] = value
    if SESSION_FIELD not in by_kind:
        raise JournalError(f"the session of {client_id!r} is named and not there")
    will = by_kind.get(WILL_FIELD, {}).get("")
    yield read_session(
        client_id,
        by_kind[SESSION_FIELD][""],
        None if will is None else message_from_bytes(will),
    )
    for kind in (PLAIN_FIELD, NEIGHBORHOOD_FIELD):
        for _, text in sorted(by_kind.get(kind, {}).items()):
            try:
                yield SubscriptionSaved(client_id, read_terms(client_id, text))
            except JournalError as error:
                lose(error)
    for number in sorted(map(int, by_kind.get(RECEIVED_FIELD, {}))):
        yield PacketReceived(client_id, number)
    identifiers = by_kind.get(PACKET_ID_FIELD, {})
    queue = by_kind.get(QUEUE_FIELD, {})
    for position in sorted(map(int, queue)):
        identifier = identifiers.get(str(position))
        try:
            entry = queue[str(position)]
            yield from _queued(client_id, position, entry, identifier, messages, shared)
        except JournalError as error:
            lose(error)


def _queued(
    client_id: str,
    position: int,
    data: bytes,
    identifier: bytes | None,
    messages: Mapping[int, Message],
    shared: SharedMessages,
) -> Iterator[Record]:
    entry = read_entry(data)
    message = entry.message
    if isinstance(message, int):
        if message not in messages:
            raise JournalError(f"message {message}, owed to {client_id!r}, is not there")
        shared.note(client_id, position, message)
        message = messages[message]
    yield MessageQueued(
        client_id,
        position,
        RELEASED_MESSAGE if message is None else message,
        entry.qos,
        entry.retain,
        entry.keys,
    )
    if identifier is not None:
        yield MessageSent(client_id, position, int(identifier))
    if message is None:
        yield MessageReleased(client_id, position)
