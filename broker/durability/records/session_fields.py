"""The hash of one session in Redis: field names, field values, and their records.

Sessions and subscriptions are JSON: they change rarely, and people read them in redis-cli.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from broker.core.journal import (
    MessageQueued,
    MessageReleased,
    MessageSent,
    PacketReceived,
    Record,
    SessionSaved,
    SubscriptionSaved,
    Will,
)
from broker.core.message import RELEASED_MESSAGE, Message
from broker.core.subscribe.subscription import SubscriptionKey, SubscriptionTerms
from broker.durability.records.edition_contents import SharedMessages
from broker.durability.records.message_bytes import message_from_bytes, read_entry
from schemas.errors import JournalError, LaterFormatError

SESSION_FIELD: Final = "s"
WILL_FIELD: Final = "w"
PLAIN_FIELD: Final = "f"  # + topic filter
NEIGHBORHOOD_FIELD: Final = "n"  # + nsid
QUEUE_FIELD: Final = "q"  # + position
PACKET_ID_FIELD: Final = "i"  # + position: the identifier that a QoS 2 message keeps
RECEIVED_FIELD: Final = "r"  # + packet identifier


def subscription_field(key: SubscriptionKey) -> str:
    """Return the field name of a subscription."""
    return f"{PLAIN_FIELD if isinstance(key, str) else NEIGHBORHOOD_FIELD}{key}"


FORMAT: Final = 1


def session_text(record: SessionSaved) -> bytes:
    """Return the session as JSON, without the message of its will."""
    return _text(
        {
            "user": record.user_name,
            "expiryInterval": record.expiry_interval,
            "expiresAt": record.expires_at,
            "willDelay": None if record.will is None else record.will.delay,
            "willAt": record.will_at,
            "host": record.host,
        }
    )


def read_session(client_id: str, text: bytes, will: Message | None) -> SessionSaved:
    """Return the session record, with the message of its will if there is one."""
    content = _content(text, f"the session of {client_id!r}")
    try:
        delay = content["willDelay"]
        if (delay is None) != (will is None):
            raise JournalError(f"the session of {client_id!r} has lost a part of its will")
        return SessionSaved(
            client_id,
            content["user"],
            content["expiryInterval"],
            content["expiresAt"],
            None if will is None else Will(will, delay),
            content["willAt"],
            # Sessions of earlier releases have no such field.
            content.get("host"),
        )
    except KeyError as error:
        raise JournalError(f"the session of {client_id!r} lacks {error}") from error


def terms_text(terms: SubscriptionTerms) -> bytes:
    """Return a subscription as JSON."""
    content = {
        "filter": terms.topic_filter,
        "qos": terms.qos,
        "noLocal": terms.no_local,
        "retainAsPublished": terms.retain_as_published,
        "retainHandling": terms.retain_handling,
        "identifier": terms.identifier,
        "nsid": terms.nsid,
        "subId": terms.sub_id,
        "descriptor": terms.descriptor,
    }
    if terms.name is not None:
        content["name"] = terms.name
    return _text(content)


def read_terms(client_id: str, text: bytes) -> SubscriptionTerms:
    """Return the terms of a subscription from JSON."""
    where = f"a subscription of {client_id!r}"
    content = _content(text, where)
    try:
        return SubscriptionTerms(
            topic_filter=content["filter"],
            qos=content["qos"],
            no_local=content["noLocal"],
            retain_as_published=content["retainAsPublished"],
            retain_handling=content["retainHandling"],
            identifier=content["identifier"],
            nsid=content["nsid"],
            sub_id=content["subId"],
            descriptor=content["descriptor"],
            # Only those of named neighborhoods have it.
            name=content.get("name"),
        )
    except KeyError as error:
        raise JournalError(f"{where} lacks {error}") from error


def _text(content: dict[str, Any]) -> bytes:
    content["format"] = FORMAT
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _content(text: bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
        form = content["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{where} is damaged: {error!r}") from error
    if form != FORMAT:
        raise LaterFormatError(f"{where} has format {form}", FORMAT)
    found: dict[str, Any] = content
    return found


def session_records(
    client_id: str,
    fields: Mapping[bytes, bytes],
    messages: Mapping[int, Message],
    shared: SharedMessages,
    lose: Callable[[JournalError], None],
) -> Iterator[Record]:
    """Yield the session, its subscriptions, sent packets, and queued messages, in order.

    ``messages`` are those stored once for several sessions; the entries that name them are
    recorded in ``shared``. ``lose`` is called with the error of a damaged subscription or entry,
    which is left out.
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
            raise JournalError(f"message {message}, for {client_id!r}, is not there")
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
