"""Random messages and records of the journal, and a plain model of what they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from broker.core.journal import (
    Journal,
    MessageDone,
    MessageQueued,
    MessageReleased,
    MessageSent,
    PacketReceived,
    PacketReleased,
    Record,
    RetainedRemoved,
    RetainedSaved,
    SessionEnded,
    SessionSaved,
    SubscriptionRemoved,
    SubscriptionSaved,
    Will,
)
from broker.core.message import NO_EXPIRY, Message
from broker.core.subscribe.subscription import SubscriptionTerms
from broker.core.verdicts import Identity

# As MQTT allows them: no surrogates, no U+0000.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)
times = st.floats(0, 4e9, allow_nan=False)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Any message; a long topic and empty parts among them."""
    properties = draw(st.binary(min_size=4, max_size=300) | st.just(b""))
    has_expiry = bool(properties) and draw(st.booleans())
    return Message(
        draw(texts | st.just("t" * 65_535)),
        draw(st.binary(max_size=600)),
        properties=properties,
        qos=draw(st.sampled_from((0, 1, 2))),
        retain=draw(st.booleans()),
        peid=draw(st.none() | st.integers(0, 2**63 - 1)),
        # A will has an interval and no time yet.
        expires_at=draw(st.none() | times) if has_expiry else None,
        expiry_offset=len(properties) - 4 if has_expiry else NO_EXPIRY,
        author=draw(st.none() | st.builds(Identity, texts, st.none() | texts)),
    )


terms = st.builds(
    SubscriptionTerms,
    topic_filter=texts,
    qos=st.sampled_from((0, 1, 2)),
    no_local=st.booleans(),
    retain_as_published=st.booleans(),
    retain_handling=st.sampled_from((0, 1, 2)),
    identifier=st.none() | st.integers(1, 268_435_455),
    nsid=st.none() | st.integers(0, 2**63 - 1),
    sub_id=st.none() | st.integers(0, 2**63 - 1),
    descriptor=st.none() | texts,
)
sessions = st.builds(
    SessionSaved,
    client_id=texts,
    user_name=st.none() | texts,
    expiry_interval=st.integers(0, 2**32 - 1),
    expires_at=st.none() | times,
    will=st.none() | st.builds(Will, messages(), st.integers(0, 2**32 - 1)),
    will_at=st.none() | times,
)
queued = st.builds(
    MessageQueued,
    client_id=texts,
    position=st.integers(1, 2**53),
    message=messages(),
    qos=st.sampled_from((1, 2)),
    retain=st.booleans(),
    keys=st.lists(texts | st.integers(0, 2**63 - 1), max_size=5).map(tuple),
)


def parts_of(message: Message) -> tuple[Any, ...]:
    """Everything about a message, to compare it."""
    return tuple(getattr(message, name) for name in Message.__slots__)


class JournalModel:
    """What records add up to, in plain dictionaries; can stand for a core that records them."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.journal = Journal(enabled=True)
        self.sessions: dict[str, dict[str, Any]] = {}
        self.retained: dict[str, Message] = {}
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:  # noqa: C901 - one case for each kind
        """Do what the record says."""
        session = self.sessions.get(getattr(record, "client_id", ""), {})
        match record:
            case SessionSaved():
                fresh: dict[str, Any] = {"subscriptions": {}, "queue": {}, "received": set()}
                self.sessions.setdefault(record.client_id, fresh)["saved"] = record
            case SessionEnded():
                del self.sessions[record.client_id]
            case SubscriptionSaved():
                session["subscriptions"][record.terms.key] = record.terms
            case SubscriptionRemoved():
                del session["subscriptions"][record.key]
            case MessageQueued():
                session["queue"][record.position] = [record, None, False]
            case MessageSent():
                session["queue"][record.position][1] = record.packet_id
            case MessageReleased():
                session["queue"][record.position][2] = True
            case MessageDone():
                del session["queue"][record.position]
            case PacketReceived():
                session["received"].add(record.packet_id)
            case PacketReleased():
                session["received"].remove(record.packet_id)
            case RetainedSaved():
                self.retained[record.message.topic] = record.message
            case RetainedRemoved():
                del self.retained[record.topic]

    def content(self) -> Any:
        """The whole state in a form that can be compared."""
        return (
            {client_id: _session_content(one) for client_id, one in self.sessions.items()},
            {topic: parts_of(message) for topic, message in self.retained.items()},
        )

    def durable_parts(self) -> Iterator[Sequence[Record]]:
        """The state session by session, each as it is when its turn comes."""
        for client_id in list(self.sessions):
            session = self.sessions.get(client_id)
            if session is not None:
                yield list(_session_records(client_id, session))
        yield [RetainedSaved(message) for message in self.retained.values()]


def _session_content(session: dict[str, Any]) -> Any:
    saved: SessionSaved = session["saved"]
    will = None if saved.will is None else (parts_of(saved.will.message), saved.will.delay)
    plain = (saved.user_name, saved.expiry_interval, saved.expires_at, saved.will_at, will)
    queue = []
    for position, (record, packet_id, is_released) in sorted(session["queue"].items()):
        # Of a message that its client has, nothing but the identifier matters.
        entry = (
            ()
            if is_released
            else (parts_of(record.message), record.qos, record.retain, record.keys)
        )
        queue.append((position, packet_id, is_released, entry))
    return plain, session["subscriptions"], queue, session["received"]


def _session_records(client_id: str, session: dict[str, Any]) -> Iterator[Record]:
    yield session["saved"]
    for one in session["subscriptions"].values():
        yield SubscriptionSaved(client_id, one)
    for packet_id in session["received"]:
        yield PacketReceived(client_id, packet_id)
    for position, (record, packet_id, is_released) in session["queue"].items():
        yield record
        if packet_id is not None:
            yield MessageSent(client_id, position, packet_id)
        if is_released:
            yield MessageReleased(client_id, position)


class RandomCore(JournalModel):
    """Does random things that a core may do, and records them."""

    def __init__(self, seed: int, clients: int = 4) -> None:
        super().__init__()
        self._random = Random(seed)  # noqa: S311 - a test that can be repeated
        self._clients = [f"client {number} ü{{}}" for number in range(clients)]
        self._last = dict.fromkeys(self._clients, 0)
        self._count = 0

    def take(self) -> list[Record]:
        """The records since the last time."""
        return self.journal.take()[1]

    def act(self, times: int = 1) -> None:
        """Some random steps."""
        for _ in range(times):
            for record in self._step():
                self.journal.write(record)
                self.apply(record)

    def _step(self) -> list[Record]:
        client_id = self._random.choice(self._clients)
        session = self.sessions.get(client_id)
        if session is None:
            return [self._saved(client_id)]
        chance = self._random.random()
        if chance < 0.45:
            return self._publish(client_id)
        if chance < 0.8 and session["queue"]:
            return self._progress(client_id, session["queue"])
        if chance < 0.88:
            return [self._saved(client_id) if chance < 0.85 else SessionEnded(client_id)]
        if chance < 0.96:
            return self._subscribe(client_id, session["subscriptions"])
        return [PacketReleased(client_id, number) for number in list(session["received"])[:1]]

    def _message(self) -> Message:
        self._count += 1
        size = self._random.choice((0, 10, 400, 5_000))
        payload = self._count.to_bytes(4, "big") + self._random.randbytes(size)
        return Message(f"topic/{self._random.randrange(4)}", payload, qos=2, peid=self._count)

    def _saved(self, client_id: str) -> SessionSaved:
        will = Will(self._message(), 3) if self._random.random() < 0.3 else None
        return SessionSaved(client_id, None, 100, self._random.random(), will)

    def _publish(self, publisher: str) -> list[Record]:
        """One message for some of the sessions, with all that belongs to it."""
        message = self._message()
        records: list[Record] = []
        for client_id in self.sessions:
            if self._random.random() < 0.6:
                self._last[client_id] += 1
                position, qos = self._last[client_id], self._random.choice((1, 2))
                keys: tuple[str | int, ...] = ("topic/#", 7)
                records.append(
                    MessageQueued(client_id, position, message, qos, retain=False, keys=keys)
                )
                if qos == 2 and self._random.random() < 0.5:
                    records.append(MessageSent(client_id, position, position % 65_535 + 1))
        if self._random.random() < 0.3:
            records.append(RetainedSaved(message))
        elif message.topic in self.retained and self._random.random() < 0.2:
            records.append(RetainedRemoved(message.topic))
        received = self.sessions[publisher]["received"]
        packet_id = self._random.randrange(1, 50)
        if packet_id not in received:
            records.append(PacketReceived(publisher, packet_id))
        return records

    def _progress(self, client_id: str, queue: dict[int, Any]) -> list[Record]:
        position = self._random.choice(list(queue))
        record, packet_id, is_released = queue[position]
        if record.qos == 2 and packet_id is None:
            return [MessageSent(client_id, position, position % 65_535 + 1)]
        if record.qos == 2 and not is_released:
            return [MessageReleased(client_id, position)]
        return [MessageDone(client_id, position)]

    def _subscribe(self, client_id: str, held: dict[Any, Any]) -> list[Record]:
        if held and self._random.random() < 0.4:
            return [SubscriptionRemoved(client_id, self._random.choice(list(held)))]
        nsid = self._random.choice((None, 1, 2))
        topic_filter = f"topic/{self._random.randrange(3)}"
        return [
            SubscriptionSaved(client_id, SubscriptionTerms(topic_filter=topic_filter, nsid=nsid))
        ]
