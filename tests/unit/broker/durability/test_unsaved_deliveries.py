"""QoS 1 deliveries of the fast path are stored only if their PUBACK does not come at once."""

from __future__ import annotations

from broker.core.broker_core import Core
from broker.core.journal import MessageDone, MessageQueued, Record, SubscriptionSaved
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

EXPIRY = b"\x11\x00\x00\x0e\x10"
PUBACK = encode.ack(0x40, 7)


def publish(payload: bytes = b"x", packet_id: int = 7) -> bytes:
    return encode.publish("t", payload, qos=1, packet_id=packet_id)


def two_clients() -> tuple[Harness, Client, Client]:
    """A publisher, and a subscriber whose session is stored; the route is known."""
    harness = Harness(durable=True)
    subscriber = harness.connect("s", properties=EXPIRY)
    subscriber.subscribe("t", 1)
    publisher = harness.connect("p")
    publisher.send(publish())
    subscriber.send(encode.ack(0x40, subscriber.messages()[0].packet_id))
    assert any(isinstance(one, MessageQueued) for one in harness.records)
    harness.records.clear()
    publisher.take()
    return harness, subscriber, publisher


def turn(core: Core) -> list[Record]:
    """What a shell does at the end of a turn, as far as the store is concerned."""
    core.commit_acknowledged()
    position, records = core.journal.take()
    if records:
        core.committed(position)
    return records


def test_an_acknowledged_delivery_is_not_stored() -> None:
    harness, subscriber, publisher = two_clients()
    core = harness.core
    core.receive(publisher.connection, publish())
    assert turn(core) == []
    # The publisher waits: nobody has promised yet that the message arrives.
    assert core.output_of(publisher.connection) == b""
    sent = core.output_of(subscriber.connection)
    assert sent == publish(packet_id=2)
    core.receive(subscriber.connection, encode.ack(0x40, 2))
    assert turn(core) == []
    assert core.output_of(publisher.connection) == PUBACK


def test_one_that_is_not_acknowledged_is_stored() -> None:
    harness, subscriber, publisher = two_clients()
    core = harness.core
    core.receive(publisher.connection, publish())
    for _ in range(2):
        assert turn(core) == []
        assert core.output_of(publisher.connection) == b""
        due = core.next_deadline()
        assert due is not None
        harness.clock.now = due
        core.tick()
    (queued,) = turn(core)
    assert isinstance(queued, MessageQueued)
    assert (queued.message.payload, queued.keys) == (b"x", ("t",))
    assert core.output_of(publisher.connection) == PUBACK
    # Its PUBACK, which comes late, removes it.
    core.receive(subscriber.connection, encode.ack(0x40, 2))
    assert turn(core) == [MessageDone(queued.client_id, queued.position)]


def test_a_promise_waits_for_every_receiver() -> None:
    harness, subscriber, publisher = two_clients()
    other = harness.connect("o", properties=EXPIRY)
    other.subscribe("t", 1)
    publisher.send(publish())
    publisher.take()
    for one in (subscriber, other):
        one.send(encode.ack(0x40, one.messages()[-1].packet_id))
    core = harness.core
    core.receive(publisher.connection, publish(b"1", 1) + publish(b"2", 2))
    core.receive(subscriber.connection, encode.ack(0x40, 3) + encode.ack(0x40, 4))
    assert turn(core) == []
    assert core.output_of(publisher.connection) == b""
    core.receive(other.connection, encode.ack(0x40, 2) + encode.ack(0x40, 3))
    assert turn(core) == []
    assert core.output_of(publisher.connection) == encode.ack(0x40, 1) + encode.ack(0x40, 2)


def test_other_records_keep_their_place() -> None:
    harness, subscriber, publisher = two_clients()
    core = harness.core
    core.receive(publisher.connection, publish())
    core.receive(subscriber.connection, encode.subscribe(("u", 1)))
    first, second = turn(core)
    assert isinstance(first, MessageQueued)
    assert isinstance(second, SubscriptionSaved)
    assert core.output_of(publisher.connection) == PUBACK


def test_what_was_not_acknowledged_comes_again_after_a_restart() -> None:
    harness, _subscriber, publisher = two_clients()
    everything = [record for part in harness.core.durable_parts() for record in part]
    publisher.send(publish(b"kept"))
    again = Harness(durable=True)
    again.core.restore(everything + harness.records)
    back = again.connect("s", flags=0, properties=EXPIRY)
    assert [one.payload for one in back.messages()] == [b"kept"]


def test_receivers_share_a_stored_message() -> None:
    harness, _subscriber, publisher = two_clients()
    harness.connect("o", properties=EXPIRY).subscribe("t", 1)
    publisher.send(publish())
    first, second = [one for one in harness.records if isinstance(one, MessageQueued)]
    assert first.message is second.message
